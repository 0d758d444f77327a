package plugins

import (
	"slices"
	"testing"

	"k8s.io/client-go/tools/events"
	componentmetrics "k8s.io/component-base/metrics"
	"k8s.io/kubernetes/pkg/scheduler/backend/cache"
	"k8s.io/kubernetes/pkg/scheduler/backend/queue"
	"k8s.io/kubernetes/pkg/scheduler/framework"
	"k8s.io/kubernetes/pkg/scheduler/framework/preemption"

	"g8s.host/gpu-scheduler/test/wrapped"
)

// What several lists have in common. A method that kube-scheduler adds is in none of them.
const answers = "it answers, and changes nothing"

var (
	answersOfCache = []string{"NodeCount", "PodCount", "GetPod", "IsAssumedPod", "Dump"}
	answersOfQueue = []string{
		"SchedulingCycle", "NominatedPodsForNode", "GetPod", "PendingPods", "InFlightPods", "PodsInActiveQ", "PodsInBackoffQ", "UnschedulablePods",
	}
)

func TestWrappersOfTheCacheLeaveNothingOut(t *testing.T) {
	wrapped.Check[changingCache, cache.Cache](t, wrapped.Left{
		answers: answersOfCache,
		"it only sets from when on what was assumed may expire, and with kube-scheduler nothing does": {"FinishBinding"},
		"it writes to the API server, and the cache hears of it by AddPod":                            {"BindPod"},
	})
	wrapped.Check[watchedCache, cache.Cache](t, wrapped.Left{
		answers: answersOfCache,
		"it is the scheduler's own doing: the API server has told nothing": {"AssumePod", "ForgetPod", "FinishBinding", "BindPod"},
		"a revision of pods says nothing of nodes":                         {"AddNode", "UpdateNode", "RemoveNode"},
	})
}

func TestWrappersOfTheQueueLeaveNothingOut(t *testing.T) {
	const (
		loop   = "it begins and ends the queue"
		status = "it writes to the API server, and the queue hears of it by Update"
	)
	wrapped.Check[watchedQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		loop:    {"Run", "Close"},
		status:  {"PatchPodStatus"},
		"it is the scheduler's own doing: the API server has told nothing": {
			"Pop", "Done", "Activate", "AddUnschedulableIfNotPresent", "AddNominatedPod", "UpdateNominatedPod", "DeleteNominatedPodIfExists",
		},
		"the cache was told of the change before": {"MoveAllToActiveOrBackoffQueue", "AssignedPodAdded", "AssignedPodUpdated"},
	})
	wrapped.Check[orderedQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		loop:    {"Run", "Close"},
		status:  {"PatchPodStatus"},
		"the loop calls it, which takes turns itself":                           {"Pop"},
		"the pod was taken from the queue before, and nothing is heard of it":   {"Done"},
		"it moves pods that the queue has, and the queue has the same after it": {"Activate", "MoveAllToActiveOrBackoffQueue", "AssignedPodAdded", "AssignedPodUpdated"},
		"nominations are beside the queue":                                      {"UpdateNominatedPod", "DeleteNominatedPodIfExists"},
	})
	wrapped.Check[cardQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		loop:    {"Run", "Close"},
		status:  {"PatchPodStatus"},
		"it is no event of a pod on a node": {
			"Add", "Update", "Pop", "Done", "Activate", "AddNominatedPod", "UpdateNominatedPod", "DeleteNominatedPodIfExists",
		},
		"kube-scheduler calls it only with its queueing hints off, which ours rely on": {"AssignedPodAdded", "AssignedPodUpdated"},
	})
}

// methodsOfProfiles are those of a profile that are known.
var methodsOfProfiles = []string{
	"APICacher", "APIDispatcher", "Activate", "AddNominatedPod", "ClientSet", "Close", "DeleteNominatedPodIfExists", "EnqueueExtensions", "EventRecorder",
	"Extenders", "GetNodeHint", "GetWaitingPod", "HasFilterPlugins", "HasPostFilterPlugins", "HasScorePlugins", "IterateOverWaitingPods", "KubeConfig",
	"ListPlugins", "NominatedPodsForNode", "Parallelizer", "PercentageOfNodesToScore", "PreEnqueuePlugins", "ProfileName", "QueueSortFunc",
	"RejectWaitingPod", "RunBindPlugins", "RunFilterPlugins", "RunFilterPluginsWithNominatedPods", "RunPermitPlugins", "RunPostBindPlugins",
	"RunPostFilterPlugins", "RunPreBindPlugins", "RunPreBindPreFlights", "RunPreFilterExtensionAddPod", "RunPreFilterExtensionRemovePod",
	"RunPreFilterPlugins", "RunPreScorePlugins", "RunReservePluginsReserve", "RunReservePluginsUnreserve", "RunScorePlugins", "SetAPICacher",
	"SetPodActivator", "SetPodNominator", "SharedCSIManager", "SharedDRAManager", "SharedInformerFactory", "SignPod", "SnapshotSharedLister",
	"StoreScheduleResults", "UpdateNominatedPod", "WaitOnPermit", "WillWaitOnPermit", "WorkloadManager",
}

// others are those but some.
func others(but ...string) []string {
	return slices.DeleteFunc(slices.Clone(methodsOfProfiles), func(method string) bool { return slices.Contains(but, method) })
}

func TestWrappersOfProfilesLeaveNothingOut(t *testing.T) {
	wrapped.Check[tieBreaker, framework.Framework](t, wrapped.Left{"it draws no lots between nodes": others("RunScorePlugins")})
	wrapped.Check[probing, framework.Framework](t, wrapped.Left{"the nodes are narrowed down at PreFilter": others("RunPreFilterPlugins")})
	wrapped.Check[quiet, framework.Framework](t, wrapped.Left{"it writes no event of a failed attempt": others("EventRecorder")})
	wrapped.Check[discreet, framework.Framework](t, wrapped.Left{"it says nothing of how long a binding takes": others("WillWaitOnPermit", "RunPreBindPreFlights")})
	wrapped.Check[quietRecorder, events.EventRecorder](t, nil)
}

func TestWrappersOfThePreemptionLeaveNothingOut(t *testing.T) {
	wrapped.Check[patient, preemption.Interface](t, wrapped.Left{
		"a pod that may not preempt now is not asked for": {
			"GetOffsetAndNumCandidates", "CandidatesToVictimsMap", "SelectVictimsOnNode", "OrderedScoreFuncs",
		},
	})
	wrapped.Check[uncountedAgain, componentmetrics.ObserverMetric](t, nil)
}
