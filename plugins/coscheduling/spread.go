package coscheduling

import (
	"math"

	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/labels"
	"k8s.io/apimachinery/pkg/selection"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/component-helpers/scheduling/corev1/nodeaffinity"
	"k8s.io/klog/v2"
	fwk "k8s.io/kube-scheduler/framework"
	"k8s.io/utils/ptr"
)

// spread counts the pods by domain that a pod's topologySpreadConstraints speak of, as pods come and go in a rehearsal.
//
// Kubernetes' own filter cannot be asked about that: of all domains it follows the two that had the fewest pods when it began, which
// is right for what its own preemption asks, pods that leave one node. With members in more domains than two it takes the least of
// those two for the least of all, and lets a member in that it refuses when the victims have left (criticalPaths in
// podtopologyspread/filtering.go of Kubernetes 1.37, which says so).
type spread struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	rules    []spreadRule
}

// spreadRule is one constraint, and how many pods that it selects are in each of its domains.
type spreadRule struct {
	corev1.TopologySpreadConstraint
	selector labels.Selector
	count    map[string]int
}

// spreadOf reads the constraints of a pod and counts who is there, nil where there is none that keeps it from a node. What cannot be
// read is refused by the filter itself, before.
func spreadOf(pod *corev1.Pod, nodes []fwk.NodeInfo) *spread {
	s := &spread{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
		if err != nil {
			return nil
		}
		s.rules = append(s.rules, spreadRule{constraint, andSameLabels(selector, pod, constraint.MatchLabelKeys), map[string]int{}})
	}
	if len(s.rules) == 0 {
		return nil
	}
	for _, info := range nodes {
		s.visit(info.Node(), func(rule *spreadRule, domain string) {
			rule.count[domain] += 0 // an empty domain is one, too
			for _, on := range info.GetPods() {
				if s.selects(rule, on.GetPod()) {
					rule.count[domain]++
				}
			}
		})
	}
	return s
}

// andSameLabels narrows a selector to pods that have some labels as a pod has them.
func andSameLabels(selector labels.Selector, pod *corev1.Pod, keys []string) labels.Selector {
	for _, key := range keys {
		if value, ok := pod.Labels[key]; ok {
			if same, err := labels.NewRequirement(key, selection.Equals, []string{value}); err == nil {
				selector = selector.Add(*same)
			}
		}
	}
	return selector
}

// stepsToSpread is how many steps of a rehearsal it takes to count nodes for the constraints of a pod.
func stepsToSpread(pod *corev1.Pod, nodes int) int {
	return len(pod.Spec.TopologySpreadConstraints) * nodes / 8
}

// steps is how many it takes to look at all domains.
func (s *spread) steps() (steps int) {
	if s == nil {
		return 0
	}
	for i := range s.rules {
		steps += len(s.rules[i].count) / 64
	}
	return steps
}

// visit calls back for each constraint that counts a node, with its domain.
func (s *spread) visit(node *corev1.Node, each func(rule *spreadRule, domain string)) {
	for i := range s.rules {
		if _, ok := node.Labels[s.rules[i].TopologyKey]; !ok {
			return // a node counts for none unless it is in a domain of each
		}
	}
	for i := range s.rules {
		if rule := &s.rules[i]; s.includes(rule, node) {
			each(rule, node.Labels[rule.TopologyKey])
		}
	}
}

// includes reports whether a node counts for a constraint, by its nodeAffinityPolicy and nodeTaintsPolicy.
func (s *spread) includes(rule *spreadRule, node *corev1.Node) bool {
	if ptr.Deref(rule.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		if match, _ := s.affinity.Match(node); !match { // what cannot be read matches nothing
			return false
		}
	}
	if ptr.Deref(rule.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor {
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, s.pod.Spec.Tolerations, keepsOut, false)
		return !untolerated
	}
	return true
}

func keepsOut(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

func (s *spread) selects(rule *spreadRule, pod *corev1.Pod) bool {
	return pod.Namespace == s.pod.Namespace && pod.DeletionTimestamp == nil && rule.selector.Matches(labels.Set(pod.Labels))
}

// change notes that a pod has come to a node, by 1, or left it, by -1.
func (s *spread) change(pod *corev1.Pod, node *corev1.Node, by int) {
	if s == nil {
		return
	}
	s.visit(node, func(rule *spreadRule, domain string) {
		if s.selects(rule, pod) {
			rule.count[domain] += by
		}
	})
}

// refuses returns the label of the nodes that the pod would be too many on, "" for none.
func (s *spread) refuses(node *corev1.Node) (key string) {
	if s == nil {
		return ""
	}
	for i := range s.rules {
		rule := &s.rules[i]
		domain, ok := node.Labels[rule.TopologyKey]
		if !ok {
			continue // the filter says so
		}
		own := 0
		if rule.selector.Matches(labels.Set(s.pod.Labels)) {
			own = 1
		}
		if rule.count[domain]+own-rule.least() > int(rule.MaxSkew) {
			return rule.TopologyKey
		}
	}
	return ""
}

// least is how many pods are in the domain with the fewest. While there are fewer domains than there have to be it is 0.
func (r *spreadRule) least() int {
	if len(r.count) < max(1, int(ptr.Deref(r.MinDomains, 1))) {
		return 0
	}
	least := math.MaxInt
	for _, count := range r.count {
		least = min(least, count)
	}
	return least
}
