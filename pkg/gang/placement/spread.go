package placement

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

// SpreadState counts the pods by domain for a pod's topologySpreadConstraints, as pods come and go in a dry run.
//
// Kubernetes' own filter cannot be used for that. It only tracks the two domains that had the fewest pods at the start, which is enough for its
// own preemption, where pods leave one node. With members in more than two domains it takes the minimum of those two for the minimum of all, and
// admits a member that it rejects once the victims have left (criticalPaths in podtopologyspread/filtering.go of Kubernetes 1.37, which says
// so).
type SpreadState struct {
	pod      *corev1.Pod
	affinity nodeaffinity.RequiredNodeAffinity
	Rules    []spreadRule
}

// spreadRule is one constraint, and the number of selected pods in each of its domains.
type spreadRule struct {
	corev1.TopologySpreadConstraint
	selector labels.Selector
	count    map[string]int
}

// NewSpreadState parses the constraints of a pod and counts the existing pods. It returns nil if there is no hard constraint. The filter itself has
// already rejected malformed constraints.
func NewSpreadState(pod *corev1.Pod, nodes []fwk.NodeInfo) *SpreadState {
	s := &SpreadState{pod: pod, affinity: nodeaffinity.GetRequiredNodeAffinity(pod)}
	for _, constraint := range pod.Spec.TopologySpreadConstraints {
		if constraint.WhenUnsatisfiable != corev1.DoNotSchedule {
			continue
		}
		selector, err := metav1.LabelSelectorAsSelector(constraint.LabelSelector)
		if err != nil {
			return nil
		}
		s.Rules = append(s.Rules, spreadRule{constraint, andSameLabels(selector, pod, constraint.MatchLabelKeys), map[string]int{}})
	}
	if len(s.Rules) == 0 {
		return nil
	}
	for _, info := range nodes {
		s.visitRules(info.Node(), func(rule *spreadRule, domain string) {
			rule.count[domain] += 0 // an empty domain counts as well
			for _, on := range info.GetPods() {
				if s.selectsPod(rule, on.GetPod()) {
					rule.count[domain]++
				}
			}
		})
	}
	return s
}

// andSameLabels narrows a selector to pods with the same values of some labels as the given pod.
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

// StepsToSpread returns how many steps of a dry run it takes to count nodes for the constraints of a pod.
func StepsToSpread(pod *corev1.Pod, nodes int) int {
	return len(pod.Spec.TopologySpreadConstraints) * nodes / 8
}

// CountSteps returns how many steps a look at all domains takes.
func (s *SpreadState) CountSteps() (steps int) {
	if s == nil {
		return 0
	}
	for i := range s.Rules {
		steps += len(s.Rules[i].count) / 64
	}
	return steps
}

// visitRules calls each for every constraint that counts a node, with its domain.
func (s *SpreadState) visitRules(node *corev1.Node, each func(rule *spreadRule, domain string)) {
	for i := range s.Rules {
		if _, ok := node.Labels[s.Rules[i].TopologyKey]; !ok {
			return // a node without a domain for each constraint counts for none
		}
	}
	for i := range s.Rules {
		if rule := &s.Rules[i]; s.includesNode(rule, node) {
			each(rule, node.Labels[rule.TopologyKey])
		}
	}
}

// includesNode reports whether a node counts for a constraint, by its nodeAffinityPolicy and nodeTaintsPolicy.
func (s *SpreadState) includesNode(rule *spreadRule, node *corev1.Node) bool {
	if ptr.Deref(rule.NodeAffinityPolicy, corev1.NodeInclusionPolicyHonor) == corev1.NodeInclusionPolicyHonor {
		if match, _ := s.affinity.Match(node); !match { // what cannot be read matches nothing
			return false
		}
	}
	if ptr.Deref(rule.NodeTaintsPolicy, corev1.NodeInclusionPolicyIgnore) == corev1.NodeInclusionPolicyHonor {
		_, untolerated := corev1helpers.FindMatchingUntoleratedTaint(klog.Background(), node.Spec.Taints, s.pod.Spec.Tolerations, repelsPods, false)
		return !untolerated
	}
	return true
}

func repelsPods(taint *corev1.Taint) bool {
	return taint.Effect == corev1.TaintEffectNoSchedule || taint.Effect == corev1.TaintEffectNoExecute
}

func (s *SpreadState) selectsPod(rule *spreadRule, pod *corev1.Pod) bool {
	return pod.Namespace == s.pod.Namespace && pod.DeletionTimestamp == nil && rule.selector.Matches(labels.Set(pod.Labels))
}

// RecordPod records that a pod has been added to a node, by 1, or removed, by -1.
func (s *SpreadState) RecordPod(pod *corev1.Pod, node *corev1.Node, by int) {
	if s == nil {
		return
	}
	s.visitRules(node, func(rule *spreadRule, domain string) {
		if s.selectsPod(rule, pod) {
			rule.count[domain] += by
		}
	})
}

// ViolatedKey returns the topology key of a constraint that the pod would violate on a node, "" for none.
func (s *SpreadState) ViolatedKey(node *corev1.Node) (key string) {
	if s == nil {
		return ""
	}
	for i := range s.Rules {
		rule := &s.Rules[i]
		domain, ok := node.Labels[rule.TopologyKey]
		if !ok {
			continue // the filter reports that
		}
		own := 0
		if rule.selector.Matches(labels.Set(s.pod.Labels)) {
			own = 1
		}
		if rule.count[domain]+own-rule.minCount() > int(rule.MaxSkew) {
			return rule.TopologyKey
		}
	}
	return ""
}

// minCount returns the smallest number of pods in a domain, or 0 while there are fewer domains than required.
func (r *spreadRule) minCount() int {
	if len(r.count) < max(1, int(ptr.Deref(r.MinDomains, 1))) {
		return 0
	}
	least := math.MaxInt
	for _, count := range r.count {
		least = min(least, count)
	}
	return least
}
