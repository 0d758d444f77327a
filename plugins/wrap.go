package plugins

import (
	"context"
	"errors"
	"runtime"
	"time"

	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/utils/clock"

	"g8s.host/gpu-scheduler/pkg/backpressure"
	"g8s.host/gpu-scheduler/pkg/cycle"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/liveness"
	"g8s.host/gpu-scheduler/plugins/gpuscore"
)

// Options configure [Wrap]. The zero value is valid.
type Options struct {
	// Gate holds pods back in the queue while it is closed. It may be nil.
	Gate *backpressure.Gate
	// Attempts records which changes of pods each attempt could see, so that a replay decides on the same state. It may be nil.
	Attempts *cycle.Attempts
	// Loop is notified when the scheduling loop asks for a pod, and gets one. It may be nil.
	Loop *liveness.Loop
	// RetryAfter is the minimum time before a waiting pod is retried without an event that could help it. If it is above 0, kube-scheduler's own
	// such retries must be off ([scheduler.WithPodMaxInUnschedulablePodsDuration]); 0 leaves retries to kube-scheduler.
	RetryAfter time.Duration
	// Seed is hashed with the pod to select among nodes of equal score. Production has 0.
	Seed uint64
}

// Wrap changes a scheduler in ways that plugins cannot. It is called once, before the scheduler runs. Namespaces take turns in the queue, and
// pods are taken while the gate is open. A short list of nodes is tried first (see pkg/cycle/shortlist), which places no pod on a node of lower
// GPUScore than without. Pods that have not reached their min-runtime are not preempted, and a pod that lost its last place does not preempt for
// a while. Pods that wait for a reserved node are tried when the reservation ends. Nodes of equal score are selected deterministically, so that
// decisions can be replayed.
func Wrap(sched *scheduler.Scheduler, options Options) {
	turns := newFairQueue(sched)
	if options.Attempts != nil {
		watchRevision(sched, &options.Attempts.Seen)
	}
	sched.FailureHandler = reportRefusals(limitEvents(sched.FailureHandler, clock.RealClock{}))
	sched.SchedulingQueue = gpuQueue{sched.SchedulingQueue, quotasOf(sched), gangRepresentative(sched), newConfinedPods(sched)}
	sched.NextEntity = resumeLeadership(takeInTurns(turns, sched.NextEntity, func(next nextEntity) nextEntity {
		return throttleLoop(reportToLoop(next, options.Loop), options.Gate)
	}), sched)
	if len(sched.Extenders) == 0 { // an extender's preference may outweigh our score
		sched.SchedulePod = withShortlist(sched.SchedulePod, decidedByGPUs(sched))
	}
	sched.SchedulePod = breakTies(sched.SchedulePod, options.Seed)
	trackNodeChanges(sched)
	guardVictims(sched)
	retryOnNodeRelease(sched)
	retryOnReservationEnd(sched)
	announceNoMembers(sched)
	if options.RetryAfter > 0 {
		newRetries(sched.SchedulingQueue, clock.RealClock{}, options.RetryAfter).wrapScheduler(sched)
	}
}

// nextEntity takes the next entity to try: a pod, or a PodGroup of Kubernetes.
type nextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error)

// throttleLoop holds back the next pod while the gate, which counts the bindings in flight, is closed. The binding of the last pod is a goroutine
// that has not run yet, and without a yield the loop would run on for 10 ms, which is dozens of pods.
func throttleLoop(next nextEntity, gate *backpressure.Gate) nextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		runtime.Gosched()
		gate.WaitUntilOpen()
		return next(logger)
	}
}

// reportToLoop reports the turns of the loop. Everything between two calls is the cycle of the pod that the first call returned.
func reportToLoop(next nextEntity, loop *liveness.Loop) nextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		loop.NoteAsking()
		entity, err := next(logger)
		if err == nil && entity != nil {
			loop.NotePod(klog.KObj(entity).String())
		}
		return entity, err
	}
}

// QueueHasPods returns a function that reports whether the active queue of a scheduler has pods. It takes both locks of the queue, and does not
// return while either is held.
func QueueHasPods(sched *scheduler.Scheduler) func() bool {
	return func() bool {
		sched.SchedulingQueue.GetPod("", "", nil)
		return len(sched.SchedulingQueue.PodsInActiveQ()) > 0
	}
}

type schedulePod = func(context.Context, framework.Framework, fwk.CycleState, *framework.QueuedPodInfo) (scheduler.ScheduleResult, error)

func breakTies(schedule schedulePod, seed uint64) schedulePod {
	return func(ctx context.Context, profile framework.Framework, cs fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		return schedule(ctx, tieBreaker{Framework: profile, seed: seed}, cs, pod)
	}
}

// withShortlist lets the plugins of some profiles narrow the nodes down, and schedules again without the list if that may be why no node was found.
func withShortlist(schedule schedulePod, profiles map[string]bool) schedulePod {
	return func(ctx context.Context, profile framework.Framework, cs fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		if !profiles[profile.ProfileName()] {
			return schedule(ctx, profile, cs, pod)
		}
		list := shortlist.Offer(cs)
		result, err := schedule(ctx, probingProfile{profile}, cs, pod)
		var unfit *framework.FitError
		if !list.IsUsed() || shortlist.IsRepeated(cs) || !errors.As(err, &unfit) || isRejectedAtPreFilter(unfit) {
			return result, err
		}
		list.Withdraw()
		return schedule(ctx, profile, cs, pod)
	}
}

// isRejectedAtPreFilter reports whether a plugin rejected the pod at PreFilter, regardless of nodes. A plugin does not see the choice of other
// plugins there, so the list is not the cause, and a retry would end the same way. In that case kube-scheduler gives all nodes the status of
// that plugin. Nodes that were left out have a status without a plugin, both if Filter rejected all of the list and if the list and the choice
// of another plugin have no node in common.
func isRejectedAtPreFilter(unfit *framework.FitError) bool {
	status := unfit.Diagnosis.NodeToStatus.AbsentNodesStatus()
	return status != nil && status.Plugin() != ""
}

// foreseenPlugins are the plugins whose verdict on a node depends on the pod and the node alone, so that the short list leaves out the nodes
// that they reject.
var foreseenPlugins = []string{"NodeAffinity", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration"}

// decidedByGPUs returns the profiles in which one point of GPUScore outweighs all that other plugins can give, and that have the foreseen
// plugins.
func decidedByGPUs(sched *scheduler.Scheduler) map[string]bool {
	profiles := map[string]bool{}
	for name, profile := range sched.Profiles {
		var ours, others int64
		for _, plugin := range profile.ListPlugins().Score.Enabled {
			if plugin.Name == gpuscore.Name {
				ours = int64(plugin.Weight)
			} else {
				others += int64(plugin.Weight)
			}
		}
		filters := sets.Set[string]{}
		for _, plugin := range profile.ListPlugins().Filter.Enabled {
			filters.Insert(plugin.Name)
		}
		profiles[name] = ours > others*fwk.MaxNodeScore && filters.HasAll(foreseenPlugins...)
	}
	return profiles
}
