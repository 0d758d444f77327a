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

// A pod may emit so many events of failed attempts at once, and one more per interval. Its status also says why it waits.
const (
	eventsAtOnce = 10
	eventEach    = 30 * time.Second
	// quietPods is how many pods are remembered, those that failed last.
	quietPods = 4096
)

// limitEvents limits the events of failed attempts. kube-scheduler only aggregates equal events of one version of a pod, so a pod that its owner
// changes all the time, and that is retried each time, would flood the API server with them.
func limitEvents(handle scheduler.FailureHandlerFn, clock clock.PassiveClock) scheduler.FailureHandlerFn {
	limits := &eventLimits{clock: clock, pods: lru.New(quietPods)}
	return func(ctx context.Context, profile framework.Framework, pod *framework.QueuedPodInfo, status *fwk.Status, nominating *fwk.NominatingInfo, start time.Time) {
		handle(ctx, quietProfile{Framework: profile, limits: limits}, pod, status, nominating, start)
	}
}

// quietProfile is a profile with rate-limited pod events.
type quietProfile struct {
	framework.Framework
	limits *eventLimits
}

// EventRecorder implements fwk.Handle.
func (q quietProfile) EventRecorder() events.EventRecorderLogger {
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
	if pod, ok := regarding.(*corev1.Pod); ok && !r.limits.allowEvent(pod.UID) {
		return
	}
	r.EventRecorderLogger.Eventf(regarding, related, kind, reason, action, note, args...)
}

// eventLimits are the limits of each pod. They are safe for concurrent use.
type eventLimits struct {
	clock clock.PassiveClock
	mu    sync.Mutex
	pods  *lru.Cache
}

func (l *eventLimits) allowEvent(pod types.UID) bool {
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
