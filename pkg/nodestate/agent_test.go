package nodestate

import (
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
)

func TestAgentOfANode(t *testing.T) {
	condition := func(status corev1.ConditionStatus, reason string) []corev1.NodeCondition {
		return []corev1.NodeCondition{{Type: g8s.ConditionAgentReady, Status: status, Reason: reason}}
	}
	for name, tc := range map[string]struct {
		conditions   []corev1.NodeCondition
		noInventory  bool
		offers       int64
		closed, away bool
	}{
		"it serves":                                   {conditions: condition(corev1.ConditionTrue, "Serving"), offers: 8},
		"kubelet asks another plugin":                 {conditions: condition(corev1.ConditionFalse, g8s.ReasonOtherPlugin), offers: 8, closed: true},
		"kubelet has rejected a pod":                  {conditions: condition(corev1.ConditionFalse, g8s.ReasonPodRejected), offers: 8, closed: true},
		"it has ended, and kubelet has noticed":       {conditions: condition(corev1.ConditionTrue, "Serving"), away: true},
		"nothing is heard of it, and kubelet asks it": {conditions: condition(corev1.ConditionUnknown, g8s.ReasonAgentSilent), offers: 8},
		"nothing is heard of it for long":             {conditions: condition(corev1.ConditionUnknown, g8s.ReasonAgentSilent), away: true},
		"it is not to run any more":                   {conditions: condition(corev1.ConditionFalse, g8s.ReasonNoAgent), noInventory: true},
		"it found no cards":                           {conditions: condition(corev1.ConditionTrue, "Serving"), noInventory: true},
		"there never was one":                         {noInventory: true},
	} {
		t.Run(name, func(t *testing.T) {
			node := &corev1.Node{Status: corev1.NodeStatus{Conditions: tc.conditions, Allocatable: corev1.ResourceList{
				g8s.ResourceGPU: *resource.NewQuantity(tc.offers, resource.DecimalSI),
			}}}
			if !tc.noInventory {
				metav1.SetMetaDataAnnotation(&node.ObjectMeta, g8s.AnnotationInventory, "{}")
			}
			if closed, away := AgentClosure(node) != nil, IsAgentAway(node); closed != tc.closed || away != tc.away {
				t.Errorf("closed %v, away %v; want %v, %v", closed, away, tc.closed, tc.away)
			}
		})
	}
}
