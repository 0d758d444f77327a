package command

import (
	"context"
	"errors"
	"fmt"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/pkg/fence"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins"
)

// endWithin is how long the process has to release its lease and end, once its loop is stalled. Whatever blocks the loop may hold resources that
// an orderly end needs.
const endWithin = 10 * time.Second

// leaderOptions defines when a leader has to give way to another one.
type leaderOptions struct {
	// stall is how long the scheduling loop may be stalled.
	stall time.Duration
	// takeover is how long standby processes wait for a sign of the leader.
	takeover time.Duration
}

func (l *leaderOptions) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&l.takeover, "takeover-after", 3*time.Second,
		"How long another process waits for a sign of the leader before it takes over, in whole seconds. Longer than leaseDuration "+
			"or 0 is as long as that. The leader itself tries for renewDeadline to renew")
	flags.DurationVar(&l.stall, "stall-limit", liveness.DefaultLimit,
		"How long the scheduling loop may stand still while pods wait. After that /livez fails and the process ends, so that "+
			"another one leads. 0 sets no limit")
}

func (l *leaderOptions) validateFlags() error {
	if l.takeover < 0 || l.takeover%time.Second != 0 || l.takeover != 0 && l.takeover <= fence.Pause {
		return fmt.Errorf("--takeover-after is %s, want whole seconds and more than %s, or 0 for leaseDuration", l.takeover, fence.Pause)
	}
	if l.stall != 0 && l.stall < 2*time.Second {
		return errors.New("--stall-limit is less than 2s: the loop is looked at once a second; give more, or 0 for no limit")
	}
	return nil
}

// watchLoop watches the loop of a scheduler. If it stalls, /livez fails and stop is called, which ends the process in an orderly way: it releases
// the lease, and the next leader need not wait for its expiry.
func (l *leaderOptions) watchLoop(ctx context.Context, stop func(), sched *scheduler.Scheduler, loop *liveness.Loop) {
	if l.stall == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	watch := &liveness.Watch{Loop: loop, Waiting: plugins.QueueHasPods(sched), Limit: l.stall, Stalled: func(err error) {
		logger.Error(err, "This scheduler ends, another one may lead")
		stop()
		time.AfterFunc(endWithin, func() {
			logger.Error(err, "This scheduler has not ended in good order, and ends now")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		})
	}}
	serveLiveness(watch.Err)
	go watch.Run(context.WithoutCancel(ctx)) // valid as long as the process responds
}

// serveLiveness makes /livez fail with an error. kube-scheduler serves it with a single check, and does not allow another one.
func serveLiveness(fault func() error) {
	healthz.PingHealthz = healthz.NamedCheck("scheduling-loop", func(*http.Request) error { return fault() })
}
