package simulate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	fwk "k8s.io/kube-scheduler/framework"

	"g8s.host/gpu-scheduler/test/wrapped"
)

// TestPodsThatWaitAreTheEngines for all ways in which a plugin finds one: the framework's own would hear that it has to leave, and the
// engine would not.
func TestPodsThatWaitAreTheEngines(t *testing.T) {
	waits := &permitWait{pod: &corev1.Pod{ObjectMeta: metav1.ObjectMeta{UID: "waits"}}}
	h := handle{engine: &engine{held: []*permitWait{waits}}}
	if got := h.GetWaitingPod(types.UID("other")); got != nil {
		t.Errorf("%v waits, which nobody knows", got)
	}
	h.GetWaitingPod("waits").Reject("", "")
	if waits.verdict != rejected {
		t.Errorf("the engine has the verdict %d", waits.verdict)
	}
	wrapped.Check[handle, fwk.Handle](t, wrapped.Left{
		"Coscheduling rejects the pod that it gets": {"RejectWaitingPod"},
		"a simulation binds within the attempt":     {"AddPodInPreBind", "GetPodInPreBind", "RemovePodInPreBind"},
		"the framework of a simulation does as that of production": {
			"APICacher", "APIDispatcher", "Activate", "AddNominatedPod", "ClientSet", "DeleteNominatedPodIfExists", "EventRecorder", "Extenders", "KubeConfig",
			"NominatedPodsForNode", "Parallelizer", "PodGroupManager", "ProfileName", "RunFilterPlugins", "RunFilterPluginsWithNominatedPods", "RunPreFilterExtensionAddPod",
			"RunPreFilterExtensionRemovePod", "RunPreScorePlugins", "RunReservePluginsReserve", "RunReservePluginsUnreserve", "RunScorePlugins", "SharedCSIManager", "SharedDRAManager", "SharedInformerFactory",
			"SignPod", "SnapshotSharedLister", "MutableSnapshotSharedLister", "UpdateNominatedPod",
		},
	})
}
