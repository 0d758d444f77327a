package manifests

import (
	"strings"
	"testing"

	appsv1 "k8s.io/api/apps/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"sigs.k8s.io/yaml"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

// TestThePolicyOfAgentsNamesWhatTheyWrite: a label, an annotation or a condition that the agent writes, and the policy does
// not know, would be refused with all that is written beside it.
func TestThePolicyOfAgentsNamesWhatTheyWrite(t *testing.T) {
	file, err := FS.ReadFile("agent/policy.yaml")
	if err != nil {
		t.Fatal(err)
	}
	for _, name := range []string{
		names.AnnotationInventory, names.LabelGPUType, names.LabelNVIDIAMemory, names.LabelNVIDIACount, names.LabelInterconnect,
		names.ConditionAgentReady, names.ConditionGPUsHealthy,
	} {
		if !strings.Contains(string(file), `"`+name+`"`) {
			t.Errorf("the policy does not name %s", name)
		}
	}
}

// TestTheAgentRunsWhereItIsAskedTo, on every such node whatever its taints, and keeps off others.
func TestTheAgentRunsWhereItIsAskedTo(t *testing.T) {
	file, err := FS.ReadFile("agent/daemonset.yaml")
	if err != nil {
		t.Fatal(err)
	}
	var set appsv1.DaemonSet
	if err := yaml.UnmarshalStrict(file, &set); err != nil {
		t.Fatal(err)
	}
	pod := &set.Spec.Template.Spec
	if pod.NodeSelector[names.LabelAgent] != names.True {
		t.Errorf("its node selector is %v, want %s", pod.NodeSelector, names.LabelAgent)
	}
	if len(pod.Tolerations) != 1 || pod.Tolerations[0].Operator != "Exists" || pod.Tolerations[0].Key != "" {
		t.Errorf("it tolerates %v, want every taint: a node under repair must still tell how its cards are", pod.Tolerations)
	}
	for label, runs := range map[string]bool{"true": true, "false": true, "": true, "paused-for-driver-upgrade": false, "paused-for-mig-change": false} {
		for _, key := range names.OperatorLabels {
			node := &corev1.Node{ObjectMeta: metav1.ObjectMeta{Labels: map[string]string{names.LabelAgent: names.True, key: label}}}
			if matches, err := nodeaffinity.GetRequiredNodeAffinity(&corev1.Pod{Spec: *pod}).Match(node); matches != runs || err != nil {
				t.Errorf("beside %s=%s it runs %v (%v), want %v", key, label, matches, err, runs)
			}
		}
	}
	mounted := map[string]bool{}
	for _, mount := range pod.Containers[0].VolumeMounts {
		mounted[mount.MountPath] = true
		if mount.MountPath == "/host" && !mount.ReadOnly {
			t.Error("it may write to all of the host")
		}
	}
	for _, path := range []string{"/var/lib/kubelet", "/var/run/cdi", "/run/containerd"} {
		if !mounted[path] {
			t.Errorf("it does not see %s", path)
		}
	}
	if mounted["/var/lib/kubelet/device-plugins"] {
		t.Error("it sees kubelet's folder of device plugins by a mount of its own, which is of another folder when that is made anew")
	}
}
