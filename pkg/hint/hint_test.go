package hint

import (
	"testing"

	"k8s.io/kubernetes/pkg/scheduler/framework"
)

func TestTheNameOfPodsThatWaitIsKubeSchedulers(t *testing.T) {
	if got := framework.EventUnscheduledPodUpdate.Resource; got != WaitingPod {
		t.Errorf("kube-scheduler calls them %q, want %q", got, WaitingPod)
	}
}
