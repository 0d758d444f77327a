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

// Situation is what a simulation starts from.
type Situation struct {
	// Nodes are those of the pool, Pods those on them.
	Nodes   []corev1.Node
	Pods    []corev1.Pod
	Waiting Waiting
	// Groups are the PodGroups of those that wait.
	Groups   []unstructured.Unstructured
	Template *corev1.Node
	// Reservations are those of the cluster at a time, Now.
	Reservations []g8s.GPUReservation
	Now          time.Time
	// Quotas are the GPUQuotas of the cluster.
	Quotas []g8s.GPUQuota
}

// Question asks what becomes of those that wait with so many new nodes. They evict nobody: who waits has not been able to.
func (s Situation) Question(nodes int) (*whatif.Question, error) {
	question := &whatif.Question{Nodes: slices.Clone(s.Nodes), Pods: s.Pods, Reservations: s.Reservations, Now: s.Now, Quotas: boundsOf(s.Quotas)}
	for i := range nodes {
		question.Nodes = append(question.Nodes, *another(s.Template, i))
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

// boundsOf are quotas that guarantee nothing, by which nobody would leave either.
func boundsOf(quotas []g8s.GPUQuota) []g8s.GPUQuota {
	out := make([]g8s.GPUQuota, len(quotas))
	for i := range quotas {
		out[i] = *quotas[i].DeepCopy()
		out[i].Spec.Min = 0
	}
	return out
}

// another is one more node like a template, with nothing on it.
func another(template *corev1.Node, number int) *corev1.Node {
	node := template.DeepCopy()
	node.Name = fmt.Sprintf("%s-another-%d", template.Name, number+1)
	node.UID = ""
	node.Labels[corev1.LabelHostname] = node.Name
	return node
}
