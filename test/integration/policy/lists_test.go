package policy

import (
	"testing"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestNobodyDeletesTheLists by mistake, alone or with others: without them the API server refuses every pod.
func TestNobodyDeletesTheLists(t *testing.T) {
	const want = "without the ConfigMap gpuctl-policy the API server refuses every new pod"
	maps := as(masters).CoreV1().ConfigMaps(metav1.NamespaceSystem)
	dry := metav1.DeleteOptions{DryRun: []string{metav1.DryRunAll}}
	checkRefusal(t, maps.Delete(t.Context(), names.PolicyConfigMap, dry), want)
	checkRefusal(t, maps.DeleteCollection(t.Context(), dry, metav1.ListOptions{}), want)
	checkRefusal(t, maps.Delete(t.Context(), "extension-apiserver-authentication", dry), "")
}
