package gpuscore

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"sync/atomic"
	"time"

	"k8s.io/apimachinery/pkg/util/wait"
	"k8s.io/klog/v2"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
)

// reloadPeriod is how often the policy file is read. Reading some hundred bytes each second costs nothing, and works on every file system and
// through the symbolic links that the kubelet swaps under a mounted ConfigMap. Notifications are lost across such swaps unless the right folder
// is watched, and would need the same reads as a fallback.
const reloadPeriod = time.Second

// reloader keeps a policy in sync with a file.
type reloader struct {
	path   string
	policy *atomic.Pointer[policy]
	report func(ctx context.Context, o outcome)
	// judged is the version of the file that was last applied or refused, so that each version is reported once.
	judged version
}

// version is the content at the path of a policy file, or why it cannot be read.
type version struct{ content, problem string }

// digest identifies a version for people.
func (v version) digest() string {
	sum := sha256.Sum256([]byte(v.content + v.problem))
	return hex.EncodeToString(sum[:4])
}

// outcome is the result of a new version of the file.
type outcome struct {
	path       string
	digest     string // of the version found
	generation int64  // of the policy that is in effect now
	err        error  // why the file was refused, nil when it is in effect
}

// follow keeps the plugin's policy in sync with the file until ctx ends. The file is read before follow returns, so that no pod is scored by the
// arguments if there is a policy.
func (p *Plugin) follow(ctx context.Context, path string) {
	reporter := newReporter(p.handle)
	r := &reloader{path: path, policy: &p.policy, report: reporter.report}
	if r.check(ctx); r.missing() {
		klog.FromContext(ctx).Info("No scoring policy yet, the arguments of the configuration apply", "path", path)
	}
	go wait.UntilWithContext(ctx, r.check, reloadPeriod)
}

// check reads the file, and applies or refuses it if it has changed. A file that has never existed is no error: it may appear later.
func (r *reloader) check(ctx context.Context) {
	data, err := os.ReadFile(r.path)
	found := version{content: string(data)}
	if err != nil {
		found = version{problem: err.Error()}
	}
	if found == r.judged || r.judged == (version{}) && errors.Is(err, fs.ErrNotExist) {
		return
	}
	r.judged = found
	if err != nil {
		err = fmt.Errorf("reading the scoring policy: %w", err)
	} else {
		err = r.apply(data)
	}
	r.report(ctx, outcome{path: r.path, digest: found.digest(), generation: r.policy.Load().generation, err: err})
}

// apply applies a policy from the next scheduling cycle on, or changes nothing.
func (r *reloader) apply(data []byte) error {
	args, err := configv1.ParseScorePolicy(data)
	if err != nil {
		return err
	}
	r.policy.Store(newPolicy(args, r.policy.Load().generation+1))
	return nil
}

// missing reports whether the file has never existed.
func (r *reloader) missing() bool { return r.judged == (version{}) }
