package api

import (
	"context"
	"time"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/util/wait"

	"g8s.host/gpu-scheduler/test/fixture"
)

// makeFleet registers the nodes: two of the pool train with 8 GPUs each, one of no pool with 4.
func makeFleet(ctx context.Context) error {
	nodes := []*corev1.Node{
		fixture.Node("node-1").Pool("train").GPUs(8, "A100-80G").Obj(),
		fixture.Node("node-2").Pool("train").GPUs(8, "A100-80G").Obj(),
		fixture.Node("node-3").GPUs(4, "L4").Obj(),
	}
	leases := client.CoordinationV1().Leases(corev1.NamespaceNodeLease)
	var held []*coordinationv1.Lease
	for _, node := range nodes {
		if _, err := client.CoreV1().Nodes().Create(ctx, node, metav1.CreateOptions{}); err != nil {
			return err
		}
		lease, err := leases.Create(ctx, &coordinationv1.Lease{ObjectMeta: metav1.ObjectMeta{Name: node.Name}}, metav1.CreateOptions{})
		if err != nil {
			return err
		}
		held = append(held, lease)
	}
	go beat(held)
	return nil
}

// beat renews the leases of nodes as their kubelets would, for as long as the tests run: without it they are NotReady
// after some of them.
func beat(leases []*coordinationv1.Lease) {
	wait.Forever(func() {
		for i, lease := range leases {
			now := metav1.NowMicro()
			lease.Spec.RenewTime = &now
			renewed, err := client.CoordinationV1().Leases(corev1.NamespaceNodeLease).Update(context.Background(), lease, metav1.UpdateOptions{})
			if err == nil { // else the next time
				leases[i] = renewed
			}
		}
	}, 10*time.Second)
}
