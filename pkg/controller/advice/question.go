package advice

import (
	"encoding/json"
	"fmt"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"
	"k8s.io/utils/ptr"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/whatif"
)

// Situation is the initial state of a simulation.
type Situation struct {
	// Nodes are the nodes of the pool, and Pods the pods on them.
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Waiting Waiting
	// Groups are the PodGroups of the waiting pods.
	Groups   []unstructured.Unstructured
	Template *corev1.Node
	// Reservations are the GPUReservations of the cluster at the time Now.
	Reservations []g8s.GPUReservation
	Now          time.Time
	// Quotas are the GPUQuotas of the cluster.
	Quotas []g8s.GPUQuota
}

// BuildQuestion asks which waiting pods start with a number of new nodes. They preempt no pods: a pod that could preempt would not wait.
func (s Situation) BuildQuestion(nodes int) (*whatif.Question, error) {
	question := &whatif.Question{Nodes: slices.Clone(s.Nodes), Pods: s.Pods, Reservations: s.Reservations, Now: s.Now, Quotas: withoutGuarantees(s.Quotas)}
	for i := range nodes {
		question.Nodes = append(question.Nodes, *extraNode(s.Template, i))
	}
	for _, group := range s.Groups {
		raw, err := group.MarshalJSON()
		if err != nil {
			return nil, fmt.Errorf("writing PodGroup %s: %w", group.GetName(), err)
		}
		question.Workload = append(question.Workload, raw)
	}
	for i := range s.Waiting.Pods {
		pod := s.Waiting.Pods[i].DeepCopy()
		pod.TypeMeta = metav1.TypeMeta{APIVersion: "v1", Kind: "Pod"}
		pod.Spec.PreemptionPolicy = ptr.To(corev1.PreemptNever)
		raw, err := json.Marshal(pod)
		if err != nil {
			return nil, fmt.Errorf("writing pod %s: %w", pod.Name, err)
		}
		question.Workload = append(question.Workload, raw)
	}
	return question, nil
}

// withoutGuarantees returns quotas without guarantees, because guarantees would cause preemption.
func withoutGuarantees(quotas []g8s.GPUQuota) []g8s.GPUQuota {
	out := make([]g8s.GPUQuota, len(quotas))
	for i := range quotas {
		out[i] = *quotas[i].DeepCopy()
		out[i].Spec.Min = 0
	}
	return out
}

// extraNode returns an empty node like the template.
func extraNode(template *corev1.Node, number int) *corev1.Node {
	node := template.DeepCopy()
	node.Name = fmt.Sprintf("%s-another-%d", template.Name, number+1)
	node.UID = ""
	node.Labels[corev1.LabelHostname] = node.Name
	return node
}
