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

// reloadPeriod is how often the policy file is read. Reading some hundred bytes each second costs nothing, works on
// every file system and through the symbolic links that the kubelet swaps under a mounted ConfigMap; notifications
// are lost across such swaps unless the right folder is watched, and would need the same reading as a fallback.
const reloadPeriod = time.Second

// reloader keeps a policy as a file has it.
type reloader struct {
	path   string
	policy *atomic.Pointer[policy]
	report func(ctx context.Context, o outcome)
	// judged is what the file was when a policy was last made or refused, so that each is reported once.
	judged version
}

// version is what is found at the path of a policy file: its content, or why that cannot be read.
type version struct{ content, problem string }

// digest tells versions apart for people.
func (v version) digest() string {
	sum := sha256.Sum256([]byte(v.content + v.problem))
	return hex.EncodeToString(sum[:4])
}

// outcome is what came of a new version of the file.
type outcome struct {
	path       string
	digest     string // of the version found
	generation int64  // of the policy that is in effect now
	err        error  // why the file was refused, nil when it is in effect
}

// follow keeps the plugin's policy as the file has it until ctx ends. The file is read before follow returns, so that
// no pod is scored by the arguments while there is a policy.
func (p *Plugin) follow(ctx context.Context, path string) {
	reporter := newReporter(p.handle)
	r := &reloader{path: path, policy: &p.policy, report: reporter.report}
	if r.check(ctx); r.missing() {
		klog.FromContext(ctx).Info("No scoring policy yet, the arguments of the configuration apply", "path", path)
	}
	go wait.UntilWithContext(ctx, r.check, reloadPeriod)
}

// check reads the file, and puts it in effect or refuses it if it is another one than before. A file that has never
// been there is no mistake: it may come later.
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

// apply puts a policy in effect from the next scheduling cycle on, or changes nothing.
func (r *reloader) apply(data []byte) error {
	args, err := configv1.ParseScorePolicy(data)
	if err != nil {
		return err
	}
	r.policy.Store(newPolicy(args, r.policy.Load().generation+1))
	return nil
}

// missing says whether the file has never been there.
func (r *reloader) missing() bool { return r.judged == (version{}) }
