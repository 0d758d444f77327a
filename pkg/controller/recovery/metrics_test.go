package recovery

import (
	"context"
	"fmt"
	"strings"
	"testing"

	"github.com/prometheus/client_golang/prometheus/testutil"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/client-go/kubernetes/scheme"
	"sigs.k8s.io/controller-runtime/pkg/client"
	"sigs.k8s.io/controller-runtime/pkg/client/fake"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
)

// TestTheCensusCountsEachNodeOnce, by what is first in its way.
func TestTheCensusCountsEachNodeOnce(t *testing.T) {
	taint := func(key string) func(*corev1.Node) {
		return func(n *corev1.Node) { n.Spec.Taints = append(n.Spec.Taints, corev1.Taint{Key: key}) }
	}
	silent := func(n *corev1.Node) { n.Status.Conditions[0].Status = corev1.ConditionUnknown }
	cordoned := func(n *corev1.Node) { n.Spec.Unschedulable = true }
	var objects []client.Object
	for name, changes := range map[string][]func(*corev1.Node){
		"well": nil, "also": nil, "cordoned": {cordoned, taint(g8s.TaintSuspect)}, "suspect": {taint(g8s.TaintSuspect)},
		"silent": {silent, taint(g8s.TaintSuspect)}, "dead": {silent, taint(g8s.TaintSuspect), taint(corev1.TaintNodeOutOfService)},
		"foreign": {taint(g8s.TaintNotAdmitted), taint(g8s.TaintSuspect)},
	} {
		node := fixture.Node(name).Pool("p").GPUs(8, "A").Obj()
		for _, change := range changes {
			change(node)
		}
		objects = append(objects, node)
	}
	objects = append(objects, &corev1.Node{}) // without GPUs, and no concern of ours
	objects[len(objects)-1].SetName("plain")
	reader := fake.NewClientBuilder().WithScheme(scheme.Scheme).WithObjects(objects...).Build()
	want := `# HELP gpu_controller_nodes Nodes with GPUs, by pool and by what is first in their way: OutOfService, NotReady, Cordoned, NotAdmitted, Suspect; Ready for none.
# TYPE gpu_controller_nodes gauge
gpu_controller_nodes{pool="p",state="Cordoned"} 1
gpu_controller_nodes{pool="p",state="NotAdmitted"} 1
gpu_controller_nodes{pool="p",state="NotReady"} 1
gpu_controller_nodes{pool="p",state="OutOfService"} 1
gpu_controller_nodes{pool="p",state="Ready"} 2
gpu_controller_nodes{pool="p",state="Suspect"} 1
`
	if err := testutil.CollectAndCompare(Census{Nodes: reader}, strings.NewReader(want)); err != nil {
		t.Error(err)
	}
}

// TestPoolsWithoutEnd has each of 10,000 nodes call its pool as no other does.
func TestPoolsWithoutEnd(t *testing.T) {
	var nodes many
	for i := range 10_000 {
		nodes = append(nodes, *fixture.Node(fmt.Sprint("n", i)).Pool(fmt.Sprint("p", i)).GPUs(8, "A").Obj())
	}
	if got := testutil.CollectAndCount(Census{Nodes: nodes}); got != mostPools+1 {
		t.Errorf("%d series, want %d", got, mostPools+1)
	}
}

// many is a cache of nodes.
type many []corev1.Node

func (m many) Get(context.Context, client.ObjectKey, client.Object, ...client.GetOption) error {
	return nil
}

func (m many) List(_ context.Context, list client.ObjectList, _ ...client.ListOption) error {
	list.(*corev1.NodeList).Items = m
	return nil
}
