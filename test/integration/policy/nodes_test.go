package policy

import (
	"context"
	"testing"

	coordinationv1 "k8s.io/api/coordination/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/rest"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestKubeletsPutNoNodeIntoAPool: whoever has the credentials of one node must not draw the jobs of a pool to it, also not
// by deleting the node and registering it again.
func TestKubeletsPutNoNodeIntoAPool(t *testing.T) {
	kubelets := kubelet("stolen")
	bindEverywhere(t, "system:node", kubelets.UserName) // the authorizer of nodes is off here
	nodes := as(kubelets).CoreV1().Nodes()
	const refused = "a kubelet may not set, change or remove the labels"
	node := func(labels map[string]string) *corev1.Node {
		return &corev1.Node{ObjectMeta: metav1.ObjectMeta{Name: "stolen", Labels: labels}}
	}
	_, err := nodes.Create(t.Context(), node(map[string]string{names.LabelPool: "gold-pool"}), metav1.CreateOptions{})
	checkRefusal(t, err, refused+" "+names.LabelPool)
	_, err = nodes.Create(t.Context(), node(map[string]string{names.LabelGPUType: "H100-80G"}), metav1.CreateOptions{})
	checkRefusal(t, err, refused+" "+names.LabelGPUType)
	_, err = nodes.Create(t.Context(), node(map[string]string{corev1.LabelHostname: "stolen", "rack": "7"}), metav1.CreateOptions{})
	checkRefusal(t, err, "")
	t.Cleanup(func() { _ = admin.CoreV1().Nodes().Delete(context.Background(), "stolen", metav1.DeleteOptions{}) })

	patch := func(who rest.ImpersonationConfig, text, want string, subresources ...string) {
		t.Helper()
		_, err := as(who).CoreV1().Nodes().Patch(t.Context(), "stolen", types.MergePatchType, []byte(text), metav1.PatchOptions{}, subresources...)
		checkRefusal(t, err, want)
	}
	const toGold = `{"metadata":{"labels":{"g8s.host/pool":"gold-pool"}}}`
	bindEverywhere(t, "g8s:admin", "grace")
	patch(kubelets, toGold, refused)
	patch(kubelets, toGold, refused, "status")
	patch(user("ana"), toGold, "cannot patch resource")
	patch(user("grace"), toGold, "")
	patch(kubelets, `{"metadata":{"labels":{"g8s.host/pool":"training-pool"}}}`, refused)
	patch(kubelets, `{"metadata":{"labels":{"g8s.host/pool":null}}}`, refused)
	patch(kubelets, `{"metadata":{"labels":{"rack":"8"}}}`, "")
	patch(kubelets, `{"status":{"phase":"Running"}}`, "", "status")

	if err := admin.CoreV1().Nodes().Delete(t.Context(), "stolen", metav1.DeleteOptions{}); err != nil {
		t.Fatal(err)
	}
	_, err = nodes.Create(t.Context(), node(map[string]string{names.LabelPool: "gold-pool"}), metav1.CreateOptions{})
	checkRefusal(t, err, refused)
	again, err := nodes.Create(t.Context(), node(nil), metav1.CreateOptions{})
	if err != nil || again.Labels[names.LabelPool] != "" {
		t.Errorf("the node that registered again has the labels %v, and the error is %v, want no pool and no error", again.Labels, err)
	}
}

// TestTheLeaseOfTheScheduler: who may delete it or write another holder stops all GPU scheduling.
func TestTheLeaseOfTheScheduler(t *testing.T) {
	bind(t, team(t, nil), "g8s:user")
	for _, role := range []string{"g8s:admin", "g8s:fleet-reader", "g8s:policy-admin"} {
		bindEverywhere(t, role, "grace")
	}
	eventually(t, "a scheduler to lead", func(ctx context.Context) bool {
		_, err := admin.CoordinationV1().Leases(metav1.NamespaceSystem).Get(ctx, names.SchedulerName, metav1.GetOptions{})
		return err == nil
	})
	for who, config := range map[string]rest.ImpersonationConfig{
		"a user of jobs": user("ana"), "who runs pools": user("grace"), "the server": {UserName: "system:serviceaccount:gpuctl-server:gpuctl-server"},
		"a pod of a job": {UserName: "system:serviceaccount:team:default", Groups: []string{"system:serviceaccounts", "system:authenticated"}},
	} {
		t.Run(who, func(t *testing.T) {
			leases := as(config).CoordinationV1().Leases(metav1.NamespaceSystem)
			mallory := "mallory"
			checkRefusal(t, leases.Delete(t.Context(), names.SchedulerName, metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}), "cannot delete resource")
			_, err := leases.Update(t.Context(), &coordinationv1.Lease{
				ObjectMeta: metav1.ObjectMeta{Name: names.SchedulerName},
				Spec:       coordinationv1.LeaseSpec{HolderIdentity: &mallory},
			}, metav1.UpdateOptions{DryRun: []string{metav1.DryRunAll}})
			checkRefusal(t, err, "cannot update resource")
			_, err = leases.Patch(t.Context(), names.SchedulerName, types.MergePatchType, []byte(`{"spec":{"holderIdentity":"mallory"}}`),
				metav1.PatchOptions{DryRun: []string{metav1.DryRunAll}})
			checkRefusal(t, err, "cannot patch resource")
		})
	}
}
