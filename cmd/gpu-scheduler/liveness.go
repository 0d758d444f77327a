package main

import (
	"context"
	"errors"
	"net/http"
	"time"

	"github.com/spf13/pflag"
	"k8s.io/apiserver/pkg/server/healthz"
	"k8s.io/klog/v2"
	"k8s.io/kubernetes/pkg/scheduler"

	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins"
)

// endWithin is how long the process has to release its lease and end, once its loop stands still. Who blocks the loop may
// hold what an orderly end needs.
const endWithin = 10 * time.Second

// stall is how long the scheduling loop may stand still.
type stall struct{ limit time.Duration }

func (s *stall) addFlags(flags *pflag.FlagSet) {
	flags.DurationVar(&s.limit, "stall-limit", liveness.DefaultLimit,
		"How long the scheduling loop may stand still while pods wait. After that /livez fails and the process ends, so that "+
			"another one leads. 0 sets no limit")
}

func (s *stall) validate() error {
	if s.limit != 0 && s.limit < 2*time.Second {
		return errors.New("--stall-limit is less than 2s: the loop is looked at once a second; give more, or 0 for no limit")
	}
	return nil
}

// watch watches the loop of a scheduler. When it stands still, /livez fails and stop is called, which ends the process in
// good order: it releases the lease, and the next leader need not wait for it to run out.
func (s *stall) watch(ctx context.Context, stop func(), sched *scheduler.Scheduler, loop *liveness.Loop) {
	if s.limit == 0 {
		return
	}
	logger := klog.FromContext(ctx)
	watch := &liveness.Watch{Loop: loop, Waiting: plugins.Waiting(sched), Limit: s.limit, Stalled: func(err error) {
		logger.Error(err, "This scheduler ends, another one may lead")
		stop()
		time.AfterFunc(endWithin, func() {
			logger.Error(err, "This scheduler has not ended in good order, and ends now")
			klog.FlushAndExit(klog.ExitFlushTimeout, 1)
		})
	}}
	serveLiveness(watch.Err)
	go watch.Run(context.WithoutCancel(ctx)) // it is right as long as the process answers
}

// serveLiveness has /livez fail with an error. kube-scheduler answers it by one check, and lets nobody add another.
func serveLiveness(fault func() error) {
	healthz.PingHealthz = healthz.NamedCheck("scheduling-loop", func(*http.Request) error { return fault() })
}
