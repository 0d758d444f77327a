package manifests

import (
	"fmt"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
	admissionregistrationv1 "k8s.io/api/admissionregistration/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	schedulerv1 "k8s.io/kube-scheduler/config/v1"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestTheFenceKnowsTheSchedulersLease compares the policy with the configuration and the account that it is about: were
// they of different names, the API server would refuse every binding.
func TestTheFenceKnowsTheSchedulersLease(t *testing.T) {
	var config schedulerv1.KubeSchedulerConfiguration
	read(t, "scheduler/scheduler-config.yaml", 0, &config)
	var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
	read(t, "policy/fence.yaml", 1, &binding)

	want := []string{config.LeaderElection.ResourceLock, config.LeaderElection.ResourceNamespace, config.LeaderElection.ResourceName}
	got := []string{"leases", binding.Spec.ParamRef.Namespace, binding.Spec.ParamRef.Name}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("the scheduler's lease, and the policy's parameter (-want +got):\n%s", diff)
	}
}

func TestThePoliciesKnowTheSchedulerAndItsAnnotations(t *testing.T) {
	var account corev1.ServiceAccount
	read(t, "scheduler/serviceaccount.yaml", 0, &account)
	account.Namespace = metav1.NamespaceSystem // the kustomization sets it
	user := fmt.Sprintf("%q", "system:serviceaccount:"+account.Namespace+":"+account.Name)
	tests := map[string][]string{
		"policy/fence.yaml":   {user, names.AnnotationEpoch},
		"policy/devices.yaml": {user, names.AnnotationEpoch, names.AnnotationGPUDevices, names.AnnotationDecision},
	}
	for file, parts := range tests {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		read(t, file, 0, &policy)
		var expressions strings.Builder
		for _, condition := range policy.Spec.MatchConditions {
			expressions.WriteString(condition.Expression)
		}
		for _, validation := range policy.Spec.Validations {
			expressions.WriteString(validation.Expression)
		}
		for _, part := range parts {
			if !strings.Contains(expressions.String(), part) {
				t.Errorf("%s does not look at %s", file, part)
			}
		}
	}
}

// read decodes one document of a file, and refuses fields that the type does not have.
func read(t *testing.T, name string, index int, into any) {
	t.Helper()
	if err := yaml.UnmarshalStrict(documents(t, name)[index], into); err != nil {
		t.Fatalf("reading document %d of %s: %v", index, name, err)
	}
}
