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

// Options of [Wrap]. The zero value will do.
type Options struct {
	// Gate holds pods back in the queue while it is closed. nil holds none.
	Gate *backpressure.Gate
	// Attempts is told which changes of pods each attempt could see, so that a replay decides on the same. nil is told
	// nothing.
	Attempts *cycle.Attempts
	// Loop is told when the scheduling loop asks for a pod, and gets one. nil is told nothing.
	Loop *liveness.Loop
	// RetryAfter is how long a pod waits at least before it is tried again with no event that could help it. Above 0, kube-scheduler's own such
	// retries must be off ([scheduler.WithPodMaxInUnschedulablePodsDuration]); 0 leaves retries to them.
	RetryAfter time.Duration
	// Seed decides between nodes of equal score, together with the pod. Production has 0.
	Seed uint64
}

// Wrap does to a scheduler what plugins cannot do from within. It is called once, before the scheduler runs. Pods are
// taken from the queue in turns of their namespaces, and while the gate is open. They are tried on a short list of nodes first (see pkg/cycle/shortlist), which places none on a node of lower GPUScore than without.
// Nobody preempts those who have not run for their min-runtime,
// and no pod preempts for a while that lost its last place. Who waits
// for a node that is kept from them is tried when that ends. Between
// nodes of equal score it is not chance that decides, so that what the scheduler did can be done again.
func Wrap(sched *scheduler.Scheduler, options Options) {
	turns := turnsOf(sched)
	if options.Attempts != nil {
		watchRevision(sched, &options.Attempts.Seen)
	}
	sched.FailureHandler = heedRefusals(quietly(sched.FailureHandler, clock.RealClock{}))
	sched.SchedulingQueue = cardQueue{sched.SchedulingQueue, quotasOf(sched), firstOfGangs(sched), confinedOf(sched)}
	sched.NextEntity = takeOver(inTurns(turns, sched.NextEntity, func(next nextEntity) nextEntity {
		return throttled(told(next, options.Loop), options.Gate)
	}), sched)
	if len(sched.Extenders) == 0 { // what an extender prefers may outweigh our score
		sched.SchedulePod = listFirst(sched.SchedulePod, decidedByGPUs(sched))
	}
	sched.SchedulePod = breakTies(sched.SchedulePod, options.Seed)
	followChanges(sched)
	guardVictims(sched)
	followReleases(sched)
	followPromises(sched)
	announceNoMembers(sched)
	if options.RetryAfter > 0 {
		newRetries(sched.SchedulingQueue, clock.RealClock{}, options.RetryAfter).wrap(sched)
	}
}

// nextEntity takes what is tried next: a pod, or a PodGroup of Kubernetes.
type nextEntity = func(klog.Logger) (framework.QueuedEntityInfo, error)

// throttled holds back the next pod while the gate is closed, which counts the bindings that have begun. The one of the last pod is a
// goroutine that has not run yet, and the loop would run on for 10 ms before it gives way by itself: dozens of pods.
func throttled(next nextEntity, gate *backpressure.Gate) nextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		runtime.Gosched()
		gate.Wait()
		return next(logger)
	}
}

// told tells a loop of its turns. Whatever happens between two calls is the cycle of the pod that the first returned.
func told(next nextEntity, loop *liveness.Loop) nextEntity {
	return func(logger klog.Logger) (framework.QueuedEntityInfo, error) {
		loop.Asks()
		entity, err := next(logger)
		if err == nil && entity != nil {
			loop.Takes(klog.KObj(entity).String())
		}
		return entity, err
	}
}

// Waiting returns what reports whether the active queue of a scheduler has pods. It asks for both of the queue's locks, and
// does not return while somebody holds one of them.
func Waiting(sched *scheduler.Scheduler) func() bool {
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

// listFirst offers the plugins of some profiles to narrow the nodes down, and schedules again without if that may be
// why there is no node.
func listFirst(schedule schedulePod, profiles map[string]bool) schedulePod {
	return func(ctx context.Context, profile framework.Framework, cs fwk.CycleState, pod *framework.QueuedPodInfo) (scheduler.ScheduleResult, error) {
		if !profiles[profile.ProfileName()] {
			return schedule(ctx, profile, cs, pod)
		}
		list := shortlist.Offer(cs)
		result, err := schedule(ctx, probing{profile}, cs, pod)
		var unfit *framework.FitError
		if !list.Used() || shortlist.Repeated(cs) || !errors.As(err, &unfit) || turnedAway(unfit) {
			return result, err
		}
		list.Withdraw()
		return schedule(ctx, profile, cs, pod)
	}
}

// turnedAway reports whether a plugin rejected the pod at PreFilter, whatever the nodes: a plugin sees none of the others'
// choice there, so the list is not to blame, and trying again would end the same way. Then kube-scheduler gives all nodes
// that plugin's status. The status of nodes that were left out names no plugin, neither where Filter rejected all of the
// list nor where the list and the choice of another plugin have no node in common.
func turnedAway(unfit *framework.FitError) bool {
	status := unfit.Diagnosis.NodeToStatus.AbsentNodesStatus()
	return status != nil && status.Plugin() != ""
}

// foreseen are the plugins whose verdict on a node follows from the pod and the node alone, so that the short list leaves
// out what they would reject.
var foreseen = []string{"NodeAffinity", "NodeResourcesFit", "NodeUnschedulable", "TaintToleration"}

// decidedByGPUs returns the profiles in which one point of GPUScore outweighs all that other plugins can give, and that
// have the plugins whose verdict is foreseen.
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
		profiles[name] = ours > others*fwk.MaxNodeScore && filters.HasAll(foreseen...)
	}
	return profiles
}
