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
	report func(ctx context.Context, o reloadOutcome)
	// lastSeen is the version of the file that was last applied or refused, so that each version is reported once.
	lastSeen fileVersion
}

// fileVersion is the content at the path of a policy file, or why it cannot be read.
type fileVersion struct{ content, problem string }

// shortDigest identifies a version for people.
func (v fileVersion) shortDigest() string {
	sum := sha256.Sum256([]byte(v.content + v.problem))
	return hex.EncodeToString(sum[:4])
}

// reloadOutcome is the result of a new version of the file.
type reloadOutcome struct {
	path       string
	digest     string // of the version found
	generation int64  // of the policy that is in effect now
	err        error  // why the file was refused, nil when it is in effect
}

// watchPolicy keeps the plugin's policy in sync with the file until ctx ends. The file is read before follow returns, so that no pod is scored by the
// arguments if there is a policy.
func (p *Plugin) watchPolicy(ctx context.Context, path string) {
	reporter := newReporter(p.handle)
	r := &reloader{path: path, policy: &p.policy, report: reporter.reportReload}
	if r.reloadIfChanged(ctx); r.isMissing() {
		klog.FromContext(ctx).Info("No scoring policy yet, the arguments of the configuration apply", "path", path)
	}
	go wait.UntilWithContext(ctx, r.reloadIfChanged, reloadPeriod)
}

// reloadIfChanged reads the file, and applies or refuses it if it has changed. A file that has never existed is no error: it may appear later.
func (r *reloader) reloadIfChanged(ctx context.Context) {
	data, err := os.ReadFile(r.path)
	found := fileVersion{content: string(data)}
	if err != nil {
		found = fileVersion{problem: err.Error()}
	}
	if found == r.lastSeen || r.lastSeen == (fileVersion{}) && errors.Is(err, fs.ErrNotExist) {
		return
	}
	r.lastSeen = found
	if err != nil {
		err = fmt.Errorf("reading the scoring policy: %w", err)
	} else {
		err = r.applyPolicy(data)
	}
	r.report(ctx, reloadOutcome{path: r.path, digest: found.shortDigest(), generation: r.policy.Load().generation, err: err})
}

// applyPolicy applies a policy from the next scheduling cycle on, or changes nothing.
func (r *reloader) applyPolicy(data []byte) error {
	args, err := configv1.ParseScorePolicy(data)
	if err != nil {
		return err
	}
	r.policy.Store(newPolicy(args, r.policy.Load().generation+1))
	return nil
}

// isMissing reports whether the file has never existed.
func (r *reloader) isMissing() bool { return r.lastSeen == (fileVersion{}) }
