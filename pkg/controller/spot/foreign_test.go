package spot_test

import (
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/controller-runtime/pkg/client"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fakecloud"
)

// TestANodeGetsIntoNoPoolByItsProviderID: a kubelet may write spec.providerID of its own node once, where that is empty, as it is
// with kubeadm. One that names the machine of a SpotPool must not get that pool's labels, nor be emptied and deleted with it.
func TestANodeGetsIntoNoPoolByItsProviderID(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	instance := w.pool().Status.Machines[0].Instance
	w.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "zz-dev-1", Labels: map[string]string{g8s.LabelPool: "dev-pool"}},
		Spec:       corev1.NodeSpec{ProviderID: "x:///1/" + instance},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	w.run(time.Minute)
	left(t, w, "zz-dev-1", "dev-pool")
}

// TestTheCloudNamesNoNodeOfOthers: whoever sets tags in the account, or answers for the cloud, names an instance that is a node of
// the control plane. It must be neither moved to the pool, nor emptied, nor deleted.
func TestTheCloudNamesNoNodeOfOthers(t *testing.T) {
	t.Parallel()
	w := newWorld(t, 1, nil)
	w.run(2 * time.Minute)
	w.create(&corev1.Node{
		ObjectMeta: metav1.ObjectMeta{Name: "control-plane-1", Labels: map[string]string{g8s.LabelPool: "dev-pool", "node-role.kubernetes.io/control-plane": ""}},
		Spec:       corev1.NodeSpec{ProviderID: "qcloud:///1/ins-control-plane"},
		Status:     corev1.NodeStatus{Conditions: []corev1.NodeCondition{{Type: corev1.NodeReady, Status: corev1.ConditionTrue}}},
	})
	w.cloud.Put(fakecloud.Machine{ID: "ins-control-plane", Order: fakecloud.Order{Name: "control-plane-1", Tags: map[string]string{"cluster": "cluster-uid", "pool": poolName}}})
	w.run(time.Minute)
	left(t, w, "control-plane-1", "dev-pool")
	w.run(10 * time.Minute)
	left(t, w, "control-plane-1", "dev-pool")
	for _, m := range w.alive() {
		if m.ID == "ins-control-plane" {
			return
		}
	}
	t.Error("the instance of the control plane was terminated")
}

func left(t *testing.T, w *world, name, pool string) {
	t.Helper()
	var node corev1.Node
	if err := w.client.Get(w.Context(), client.ObjectKey{Name: name}, &node); err != nil {
		t.Errorf("node %s: %v", name, err)
		return
	}
	if node.Labels[g8s.LabelPool] != pool || len(node.Spec.Taints) > 0 {
		t.Errorf("node %s of %s has labels %v and taints %v", name, pool, node.Labels, node.Spec.Taints)
	}
}
