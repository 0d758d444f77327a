package plugins

import (
	"context"
	"sync"
	"time"

	"golang.org/x/time/rate"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/runtime"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/tools/events"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"
	"k8s.io/utils/lru"
)

// A pod may tell of so many failed attempts at once, and of one more each while. It says why it waits in its status, too.
const (
	eventsAtOnce = 10
	eventEach    = 30 * time.Second
	// quietPods is how many pods are remembered, those that failed last.
	quietPods = 4096
)

// quietly bounds the events of failed attempts. kube-scheduler sums up equal events of one version of a pod alone, so a pod
// that its owner changes all the time, and that is tried again each time, fills the API server with them.
func quietly(handle scheduler.FailureHandlerFn, clock clock.PassiveClock) scheduler.FailureHandlerFn {
	limits := &eventLimits{clock: clock, pods: lru.New(quietPods)}
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		handle(ctx, quiet{Framework: profile, limits: limits}, pod, status, nominating, start)
	}
}

// quiet is a profile whose pods tell of themselves within limits.
type quiet struct {
	framework.Framework
	limits *eventLimits
}

// EventRecorder implements fwk.Handle.
func (q quiet) EventRecorder() events.EventRecorderLogger {
	return quietRecorder{q.Framework.EventRecorder(), q.limits}
}

type quietRecorder struct {
	events.EventRecorderLogger
	limits *eventLimits
}

// WithLogger implements events.EventRecorderLogger.
func (r quietRecorder) WithLogger(logger klog.Logger) events.EventRecorderLogger {
	return quietRecorder{r.EventRecorderLogger.WithLogger(logger), r.limits}
}

// Eventf implements events.EventRecorder.
func (r quietRecorder) Eventf(regarding, related runtime.Object, kind, reason, action, note string, args ...any) {
	if pod, ok := regarding.(*corev1.Pod); ok && !r.limits.allow(pod.UID) {
		return
	}
	r.EventRecorderLogger.Eventf(regarding, related, kind, reason, action, note, args...)
}

// eventLimits are the limits of each pod. They may be used by many goroutines.
type eventLimits struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	pods  *lru.Cache
}

func (l *eventLimits) allow(pod types.UID) bool {
	l.mu.Lock()
	defer l.mu.Unlock()
	known, ok := l.pods.Get(pod)
	if !ok {
		known = rate.NewLimiter(rate.Every(eventEach), eventsAtOnce)
		l.pods.Add(pod, known)
	}
	limiter, ok := known.(*rate.Limiter)
	return ok && limiter.AllowN(l.clock.Now(), 1)
}
