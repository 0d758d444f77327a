package scheduler

import (
	"context"
	"fmt"
	"strings"
	"testing"
	"time"

	corev1 "k8s.io/api/core/v1"
	rbacv1 "k8s.io/api/rbac/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/client-go/kubernetes"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/fixture"
	"g8s.host/gpu-scheduler/test/rights"
)

// hostile is a pod of 1m CPU that would keep others from nodes, or take what is theirs, and what the refusal must say.
type hostile struct {
	fill func(*corev1.Pod)
	want string
}

// ofEverybody selects the pods of all jobs, of all namespaces, wherever nodes have the label.
func ofEverybody(change func(*corev1.PodAffinityTerm)) corev1.PodAffinityTerm {
	term := corev1.PodAffinityTerm{
		TopologyKey: corev1.LabelHostname, NamespaceSelector: &metav1.LabelSelector{},
		LabelSelector: &metav1.LabelSelector{},
	}
	change(&term)
	return term
}

func against(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{RequiredDuringSchedulingIgnoredDuringExecution: terms}}
	}
}

func ratherAgainst(terms ...corev1.PodAffinityTerm) func(*corev1.Pod) {
	return func(p *corev1.Pod) {
		p.Spec.Affinity = &corev1.Affinity{PodAntiAffinity: &corev1.PodAntiAffinity{}}
		for _, term := range terms {
			preferred := &p.Spec.Affinity.PodAntiAffinity.PreferredDuringSchedulingIgnoredDuringExecution
			*preferred = append(*preferred, corev1.WeightedPodAffinityTerm{Weight: 100, PodAffinityTerm: term})
		}
	}
}

func environment(name, value string) func(*corev1.Pod) {
	return func(p *corev1.Pod) { p.Spec.Containers[0].Env = []corev1.EnvVar{{Name: name, Value: value}} }
}

const (
	beyond  = "may select pods of their own namespace alone"
	chooses = "the scheduler chooses the cards"
)

var hostiles = map[string]hostile{
	"against all pods of a node":         {against(ofEverybody(func(*corev1.PodAffinityTerm) {})), beyond},
	"against all pods of a zone":         {against(ofEverybody(func(t *corev1.PodAffinityTerm) { t.TopologyKey = corev1.LabelTopologyZone })), beyond},
	"against pods of namespaces by name": {against(ofEverybody(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector, t.Namespaces = nil, []string{"a", "b"} })), beyond},
	"rather against all pods of a node":  {ratherAgainst(ofEverybody(func(*corev1.PodAffinityTerm) {})), beyond},
	"against those that differ from it":  {against(ofEverybody(func(t *corev1.PodAffinityTerm) { t.MismatchLabelKeys = []string{"app"} })), beyond},
	"the last of 32 terms":               {manyTerms, beyond},
	"33 terms":                           {func(p *corev1.Pod) { ownTerms(p, 33) }, "more than 32 terms"},
	"33 terms, which another scheduler would place": {func(p *corev1.Pod) {
		ownTerms(p, 33)
		p.Spec.SchedulerName = "default-scheduler"
	}, "more than 32 terms"},
	"a port of the node": {func(p *corev1.Pod) {
		p.Spec.Containers[0].Ports = []corev1.ContainerPort{{ContainerPort: 1, HostPort: 1}}
	}, "ports of their node"},
	"GPUs by another scheduler": {func(p *corev1.Pod) {
		*p = *fixture.Pod("hostile").GPUs(8).Obj()
		p.Spec.SchedulerName = "default-scheduler"
	}, "would give a pod GPUs"},
	"the switches between all cards":      {environment("NVIDIA_NVSWITCH", "enabled"), chooses},
	"all cards, as an old image has them": {environment("CUDA_VERSION", "8.0"), chooses},
	"all cards, by CDI":                   {func(p *corev1.Pod) { p.Annotations = map[string]string{"cdi.k8s.io/x": "nvidia.com/gpu=all"} }, chooses},
	"all cards, by a mount": {func(p *corev1.Pod) {
		p.Spec.Volumes = []corev1.Volume{{Name: "v", VolumeSource: corev1.VolumeSource{EmptyDir: &corev1.EmptyDirVolumeSource{}}}}
		p.Spec.Containers[0].VolumeMounts = []corev1.VolumeMount{{Name: "v", MountPath: "/run/nvidia-container-devices/all"}}
	}, chooses},
}

// ownTerms gives a pod so many terms against pods of its own namespace.
func ownTerms(p *corev1.Pod, count int) {
	terms := make([]corev1.PodAffinityTerm, count)
	for i := range terms {
		terms[i] = ofEverybody(func(t *corev1.PodAffinityTerm) { t.NamespaceSelector = nil })
	}
	against(terms...)(p)
}

func manyTerms(p *corev1.Pod) {
	ownTerms(p, 32)
	p.Spec.Affinity.PodAntiAffinity.RequiredDuringSchedulingIgnoredDuringExecution[31].NamespaceSelector = &metav1.LabelSelector{}
}

// tenant acts as who may make and change pods in the namespace of the test.
func (e *env) tenant() kubernetes.Interface {
	e.Helper()
	account := "system:serviceaccount:" + e.namespace + ":default"
	role := &rbacv1.Role{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, Rules: []rbacv1.PolicyRule{{APIGroups: []string{""}, Resources: []string{"pods"}, Verbs: []string{"create", "get", "patch", "delete"}}}}
	_, err := client.RbacV1().Roles(e.namespace).Create(e.Context(), role, metav1.CreateOptions{})
	e.must(err)
	binding := &rbacv1.RoleBinding{ObjectMeta: metav1.ObjectMeta{Name: "pods"}, RoleRef: rbacv1.RoleRef{APIGroup: rbacv1.GroupName, Kind: "Role", Name: "pods"},
		Subjects: []rbacv1.Subject{{APIGroup: rbacv1.GroupName, Kind: rbacv1.UserKind, Name: account}}}
	_, err = client.RbacV1().RoleBindings(e.namespace).Create(e.Context(), binding, metav1.CreateOptions{})
	e.must(err)
	e.must(rights.Await(e.Context(), client, e.namespace, binding.RoleRef, binding.Subjects[0]))
	config := cluster.RESTConfig()
	config.Impersonate.UserName = account
	return kubernetes.NewForConfigOrDie(config)
}

// TestHostilePodsAreRefused has a tenant try each, over and over, while pods of others come and go.
func TestHostilePodsAreRefused(t *testing.T) {
	e := newEnv(t)
	pods := e.tenant().CoreV1().Pods(e.namespace)
	harmless := fixture.Pod("harmless").Pool("nowhere").GPUs(1).Obj()
	e.rejectedAfter(pods.Create(e.Context(), harmless, metav1.CreateOptions{}))
	stop := e.watchOthers()
	tried := 0
	for round := range rounds(3, 100) {
		for name, h := range hostiles {
			pod := fixture.Pod(fmt.Sprint("hostile-", round)).Obj()
			h.fill(pod)
			_, err := pods.Create(e.Context(), pod, metav1.CreateOptions{})
			if err == nil || !strings.Contains(err.Error(), h.want) {
				e.Errorf("%s: got error %v, want one with %q", name, err, h.want)
			}
			tried++
		}
		// A pod that waits is given cards by an annotation.
		patch := fmt.Appendf(nil, `{"metadata":{"annotations":{"nvidia.cdi.k8s.io/%d":"nvidia.com/gpu=all"}}}`, round)
		if _, err := pods.Patch(e.Context(), harmless.Name, types.MergePatchType, patch, metav1.PatchOptions{}); err == nil || !strings.Contains(err.Error(), chooses) {
			e.Errorf("cards by an annotation of a pod that waits: got error %v, want one with %q", err, chooses)
		}
		tried++
	}
	e.Logf("%d hostile writes were refused", tried)
	stop()
	e.schedulerIsWell()
}

// rejectedAfter waits until the scheduler has looked at a pod that was made.
func (e *env) rejectedAfter(pod *corev1.Pod, err error) {
	e.Helper()
	e.must(err)
	e.rejected(pod.Name)
}

// TestWhoeverIsExemptAndKeepsOthersOut is named by the scheduler's words, and others start when the pod has gone.
func TestWhoeverIsExemptAndKeepsOthersOut(t *testing.T) {
	e := newEnv(t)
	keeper := fixture.Pod("keeper").Obj()
	against(ofEverybody(func(t *corev1.PodAffinityTerm) {
		t.LabelSelector = &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelJob: "victim"}}
	}))(keeper)
	for _, node := range []string{"kept-1"} {
		e.node(fixture.Node(node).Pool("kept").GPUs(8, "T4").Label(corev1.LabelHostname, node).Obj())
	}
	keeper.Spec.NodeSelector = map[string]string{corev1.LabelHostname: "kept-1"}
	e.pod(keeper) // by an administrator
	e.bound(keeper.Name)
	victims := newEnv(t)
	victim := victims.pod(fixture.Pod("victim").Pool("kept").GPUs(1).Label(names.LabelJob, "victim").Obj())
	if why := victims.rejected(victim.Name); !strings.Contains(why, "existing pods anti-affinity") {
		t.Errorf("the scheduler says %q", why)
	}
	now := int64(0)
	e.must(client.CoreV1().Pods(e.namespace).Delete(context.Background(), keeper.Name, metav1.DeleteOptions{GracePeriodSeconds: &now}))
	began := time.Now()
	victims.bound(victim.Name)
	t.Logf("the victim was placed %s after the keeper had gone", time.Since(began).Round(time.Millisecond))
}
