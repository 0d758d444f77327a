package manifests

import (
	"encoding/json"
	"fmt"
	"slices"
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

// TestTheNamesOfTheSchedulerAreThoseOfItsProfiles: pods that name one of them are ours to all programs and policies.
func TestTheNamesOfTheSchedulerAreThoseOfItsProfiles(t *testing.T) {
	var config schedulerv1.KubeSchedulerConfiguration
	read(t, "scheduler/scheduler-config.yaml", 0, &config)
	var got []string
	for i := range config.Profiles {
		profile := &config.Profiles[i]
		got = append(got, *profile.SchedulerName)
		profile.SchedulerName = config.Profiles[0].SchedulerName
		if diff := cmp.Diff(config.Profiles[0], *profile); diff != "" {
			t.Errorf("the first profile, and %s (-want +got):\n%s", got[i], diff)
		}
	}
	if diff := cmp.Diff(names.SchedulerNames(), got); diff != "" {
		t.Errorf("the names that all programs know, and the profiles (-want +got):\n%s", diff)
	}
	list, err := json.Marshal(got)
	if err != nil {
		t.Fatal(err)
	}
	known := "in " + strings.ReplaceAll(string(list), ",", ", ")
	for _, file := range []string{"policy/access.yaml", "policy/stay.yaml", "policy/terms.yaml", "policy/pods.yaml", "controller/poolaccess.yaml"} {
		text, err := FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		if !strings.Contains(string(text), known) {
			t.Errorf("%s does not ask whether the scheduler is %s", file, known)
		}
		if strings.Contains(string(text), `= "gpu-scheduler"`) {
			t.Errorf("%s compares with one name alone", file)
		}
	}
}

func TestThePoliciesKnowTheSchedulerAndItsAnnotations(t *testing.T) {
	var account corev1.ServiceAccount
	read(t, "scheduler/serviceaccount.yaml", 0, &account)
	account.Namespace = metav1.NamespaceSystem // the kustomization sets it
	user := fmt.Sprintf("%q", "system:serviceaccount:"+account.Namespace+":"+account.Name)
	tests := map[string][]string{
		"policy/fence.yaml":   {user, names.AnnotationEpoch},
		"policy/devices.yaml": {user, names.AnnotationEpoch, names.AnnotationGPUDevices, names.AnnotationDecision, names.AnnotationGangPlan},
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

// TestThePoliciesOnPodsExemptTheSame: a namespace is exempt from all of them or from none, and what they look for is what
// the scheduler goes by.
func TestThePoliciesOnPodsExemptTheSame(t *testing.T) {
	var first *metav1.LabelSelector
	for _, file := range []string{"policy/pods.yaml", "policy/hostpaths.yaml", "policy/access.yaml", "policy/stay.yaml", "policy/neighbours.yaml", "controller/poolaccess.yaml", "controller/claims.yaml"} {
		var policy admissionregistrationv1.ValidatingAdmissionPolicy
		read(t, file, 0, &policy)
		var binding admissionregistrationv1.ValidatingAdmissionPolicyBinding
		read(t, file, 1, &binding)
		if binding.Spec.PolicyName != policy.Name || len(binding.Spec.ValidationActions) != 1 || binding.Spec.ValidationActions[0] != admissionregistrationv1.Deny {
			t.Errorf("%s binds %s with %v, want %s with Deny", file, binding.Spec.PolicyName, binding.Spec.ValidationActions, policy.Name)
		}
		selector := binding.Spec.MatchResources.NamespaceSelector
		if first == nil {
			first = selector
		}
		if diff := cmp.Diff(first, selector); diff != "" {
			t.Errorf("%s exempts others than the first (-first +this):\n%s", file, diff)
		}
		exempt := metav1.LabelSelectorRequirement{
			Key: names.LabelPolicy, Operator: metav1.LabelSelectorOpNotIn, Values: []string{names.PolicyExempt},
		}
		if !slices.ContainsFunc(selector.MatchExpressions, func(r metav1.LabelSelectorRequirement) bool { return cmp.Equal(r, exempt) }) {
			t.Errorf("%s does not exempt %s=%s", file, names.LabelPolicy, names.PolicyExempt)
		}
		// GPUPools are all read, and where there are none nobody is kept out.
		if param := binding.Spec.ParamRef; param != nil && param.Selector == nil &&
			(param.Name != names.PolicyConfigMap || *param.ParameterNotFoundAction != admissionregistrationv1.DenyAction) {
			t.Errorf("%s reads %s, and without it %s, want %s and Deny", file, param.Name, *param.ParameterNotFoundAction, names.PolicyConfigMap)
		}
	}
}

func TestThePoliciesKnowOurNames(t *testing.T) {
	for file, parts := range map[string][]string{
		"policy/pods.yaml":      {names.ResourceGPU, names.ResourceSharedGPU, names.ResourceMIGPrefix, names.TaintMoving},
		"policy/hostpaths.yaml": {names.PolicyHostPaths, names.LabelPodSecurityEnforce},
		"policy/access.yaml":    {names.LabelPool, names.DefaultPool, names.SchedulerName, names.ResourceGPU, names.ResourceSharedGPU, names.ResourceMIGPrefix},
		"controller/poolaccess.yaml": {names.LabelPool, names.DefaultPool, names.SchedulerName, names.ResourceGPU, names.ResourceSharedGPU,
			names.ResourceMIGPrefix, strings.TrimSuffix(names.PriorityClassHigh, "high")},
		"controller/claims.yaml": {names.AnnotationOtherDeviceClasses},
		"policy/nodes.yaml":      {names.GroupName + "/"},
		"policy/namespaces.yaml": {names.LabelPolicy},
	} {
		text, err := FS.ReadFile(file)
		if err != nil {
			t.Fatal(err)
		}
		for _, part := range parts {
			if !strings.Contains(string(text), `"`+part+`"`) {
				t.Errorf("%s does not look at %q", file, part)
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
