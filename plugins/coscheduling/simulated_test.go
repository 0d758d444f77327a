package coscheduling

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/informers"
	"k8s.io/client-go/kubernetes/fake"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	"g8s.host/gpu-scheduler/pkg/gang/follow"
)

// TestASimulationKnowsItsPodGroups without an API server, and without informers that run.
func TestASimulationKnowsItsPodGroups(t *testing.T) {
	factory := informers.NewSharedInformerFactory(fake.NewClientset(), 0)
	known := &v1alpha1.PodGroup{ObjectMeta: metav1.ObjectMeta{Namespace: "ns", Name: "g"}, Spec: v1alpha1.PodGroupSpec{MinMember: 5}}
	if err := RegisterGroups(factory, []*v1alpha1.PodGroup{known}); err != nil {
		t.Fatal(err)
	}
	all, err := follow.NewGroups(factory, follow.NoClient)
	if err != nil {
		t.Fatal(err)
	}
	if got := all.GetGroup(types.NamespacedName{Namespace: "ns", Name: "g"}); got == nil || got.MinMember != 5 {
		t.Errorf("got %+v", got)
	}
}
