package integration

import (
	"context"
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	"g8s.host/gpu-scheduler/manifests"
)

// takeFenceAway lets a scheduler without leader election bind pods, until the test ends. It does what
// docs/failover.md tells: the binding of the policy stays, because the API server would stop watching Leases for good.
func takeFenceAway(t *testing.T, client kubernetes.Interface) {
	t.Helper()
	const onlyAudit = `{"spec":{"validationActions":["Audit"],"paramRef":{"parameterNotFoundAction":"Allow"}}}`
	bindings := client.AdmissionregistrationV1().ValidatingAdmissionPolicyBindings()
	_, err := bindings.Patch(t.Context(), "g8s-fence", types.MergePatchType, []byte(onlyAudit), metav1.PatchOptions{})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() {
		if err := cluster.ApplyManifests(context.Background(), manifests.FS, "policy"); err != nil {
			t.Error(err)
		}
	})
}
