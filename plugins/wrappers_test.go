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
	answersOfCache = []string{
		"NodeCount", "PodCount", "GetPod", "GetNode", "IsAssumedPod", "Dump", "PodGroupStates", "PodGroups", "CompositePodGroupStates", "CompositePodGroups",
		"BuildHierarchySnapshotFromPod", "GetRootKeyForGroup",
	}
	answersOfQueue = []string{
		"SchedulingCycle", "NominatedPodsForNode", "GetPod", "GetPodGroup", "PendingPods", "PendingPodGroupPods", "IncompletePodGroupPodsPods",
		"InFlightPods", "PodsInActiveQ", "PodsInBackoffQ", "UnschedulablePods",
	}
	// groupsOfCache and groupsOfQueue hear of PodGroups of Kubernetes, and of who belongs to one.
	groupsOfCache = []string{
		"AddPodGroupMember", "UpdatePodGroupMember", "RemovePodGroupMember", "AddPodGroup", "UpdatePodGroup", "RemovePodGroup",
		"AddCompositePodGroup", "UpdateCompositePodGroup", "RemoveCompositePodGroup",
	}
	groupsOfQueue = []string{
		"AddPodGroup", "UpdatePodGroup", "DeletePodGroup", "AddCompositePodGroup", "UpdateCompositePodGroup", "DeleteCompositePodGroup",
	}
)

func TestWrappersOfTheCacheLeaveNothingOut(t *testing.T) {
	wrapped.Check[changingCache, cache.Cache](t, wrapped.Left{
		answers:                 answersOfCache,
		"no node changes by it": groupsOfCache,
		"it writes to the API server, and the cache hears of it by AddPod": {"BindPod"},
	})
	wrapped.Check[watchedCache, cache.Cache](t, wrapped.Left{
		answers: answersOfCache,
		"it is the scheduler's own doing: the API server has told nothing":                                                              {"AssumePod", "ForgetPod", "BindPod"},
		"a revision of pods says nothing of PodGroups, and a member is an update of the pod, of which the queue or the cache hears too": groupsOfCache,
		"a revision of pods says nothing of nodes":                                                                                      {"AddNode", "UpdateNode", "RemoveNode"},
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
			"Pop", "Done", "Activate", "AddUnschedulablePodIfNotPresent", "AddAttemptedPodGroupIfNeeded",
			"AddNominatedPod", "UpdateNominatedPod", "DeleteNominatedPodIfExists",
		},
		"the cache was told of the change before":      {"MoveAllToActiveOrBackoffQueue"},
		"a revision of pods says nothing of PodGroups": groupsOfQueue,
	})
	wrapped.Check[orderedQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		loop:    {"Run", "Close"},
		status:  {"PatchPodStatus"},
		"the loop calls it, which takes turns itself":                           {"Pop"},
		"the pod was taken from the queue before, and nothing is heard of it":   {"Done"},
		"it moves pods that the queue has, and the queue has the same after it": {"Activate", "MoveAllToActiveOrBackoffQueue"},
		"PodGroups of Kubernetes take no turns but by their namespace's time":   append(groupsOfQueue, "AddAttemptedPodGroupIfNeeded"),
		"nominations are beside the queue":                                      {"UpdateNominatedPod", "DeleteNominatedPodIfExists"},
	})
	wrapped.Check[retriedQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		status:  {"PatchPodStatus"},
		"what is in the queue stays in it": {
			"Update", "Activate", "MoveAllToActiveOrBackoffQueue", "AddNominatedPod", "UpdateNominatedPod", "DeleteNominatedPodIfExists",
		},
		"the loop takes pods by NextEntity, which is timed":                   {"Pop", "Done"},
		"kube-scheduler's cycle for PodGroups of Kubernetes is never started": append(groupsOfQueue, "AddAttemptedPodGroupIfNeeded"),
	})
	wrapped.Check[gpuQueue, queue.SchedulingQueue](t, wrapped.Left{
		answers: answersOfQueue,
		loop:    {"Run", "Close"},
		status:  {"PatchPodStatus"},
		"it is no event of a pod on a node": {
			"Add", "Pop", "Done", "Activate", "AddNominatedPod", "UpdateNominatedPod", "DeleteNominatedPodIfExists",
		},
		"who waits in a PodGroup of Kubernetes is never taken for confined": append(groupsOfQueue, "AddAttemptedPodGroupIfNeeded"),
	})
}

// methodsOfProfiles are those of a profile that are known.
var methodsOfProfiles = []string{
	"APICacher", "APIDispatcher", "Activate", "AddNominatedPod", "AddPodInPreBind", "AddWaitingPod", "ClientSet", "Close", "DeleteNominatedPodIfExists", "EnqueueExtensions", "EventRecorder",
	"Extenders", "GetNodeHint", "GetPodInPreBind", "GetWaitingPod", "HasFilterPlugins", "HasPostFilterPlugins", "HasScorePlugins", "IterateOverWaitingPods", "KubeConfig",
	"ListPlugins", "MutableSnapshotSharedLister", "NominatedPodsForNode", "NormalizeScores", "Parallelizer", "PercentageOfNodesToScore", "PodGroupManager",
	"PodGroupPostFilterPlugins", "PreEnqueuePlugins", "ProfileName", "QueueSortFunc",
	"RejectWaitingPod", "RemovePodInPreBind", "RunBindPlugins", "RunFilterPlugins", "RunFilterPluginsWithNominatedPods", "RunPermitPlugins",
	"RunPlacementFeasiblePlugins", "RunPlacementGeneratePlugins", "RunPlacementScorePlugins", "RunPodGroupPostFilterPlugins", "RunPostBindPlugins",
	"RunPostFilterPlugins", "RunPreBindPlugins", "RunPreBindPreFlights", "RunPreFilterExtensionAddPod", "RunPreFilterExtensionRemovePod",
	"RunPreFilterPlugins", "RunPreScorePlugins", "RunRawScorePlugins", "RunReservePluginsReserve", "RunReservePluginsUnreserve", "RunScorePlugins", "SetAPICacher",
	"SetPodActivator", "SetPodNominator", "SharedCSIManager", "SharedDRAManager", "SharedInformerFactory", "SignPod", "SnapshotSharedLister",
	"StoreScheduleResults", "UpdateNominatedPod", "WaitOnPermit", "WillWaitOnPermit",
}

// others are those but some.
func others(but ...string) []string {
	return slices.DeleteFunc(slices.Clone(methodsOfProfiles), func(method string) bool { return slices.Contains(but, method) })
}

func TestWrappersOfProfilesLeaveNothingOut(t *testing.T) {
	wrapped.Check[tieBreaker, framework.Framework](t, wrapped.Left{"it draws no lots between nodes": others("RunScorePlugins")})
	wrapped.Check[probingProfile, framework.Framework](t, wrapped.Left{"the nodes are narrowed down at PreFilter": others("RunPreFilterPlugins")})
	wrapped.Check[quietProfile, framework.Framework](t, wrapped.Left{"it writes no event of a failed attempt": others("EventRecorder")})
	wrapped.Check[unannouncedProfile, framework.Framework](t, wrapped.Left{"it says nothing of how long a binding takes": others("WillWaitOnPermit", "RunPreBindPreFlights")})
	wrapped.Check[quietRecorder, events.EventRecorderLogger](t, nil)
}

func TestWrappersOfThePreemptionLeaveNothingOut(t *testing.T) {
	wrapped.Check[patientPreemption, preemption.Interface](t, wrapped.Left{
		"a pod that may not preempt now is not asked for": {
			"GetOffsetAndNumCandidates", "CandidatesToVictimsMap", "SelectVictimsOnNode", "OrderedScoreFuncs",
		},
	})
	wrapped.Check[deduplicatedMetric, componentmetrics.ObserverMetric](t, nil)
	wrapped.Check[podPreemptor, preemption.ExecutorPreemptor](t, wrapped.Left{
		"it says the same of the pod": {"GetName", "GetNamespace", "Pods", "Priority", "SchedulerName", "Type", "UID"},
	})
}
