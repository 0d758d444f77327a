package coscheduling

import (
	"cmp"
	"slices"
	"strconv"
	"strings"

	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/apimachinery/pkg/util/sets"

	"g8s.host/gpu-scheduler/pkg/gangplan"
)

// segment identifies members that are placed in one domain: those of one row whose numbers, divided by the segment size, are equal. It depends
// on each member alone, so a replacement belongs to the same segment.
type segment struct {
	row    string
	number int
}

// segmentAssignment assigns the members of a gang to segments.
type segmentAssignment struct {
	segmentByPod map[types.UID]segment
	// placed are the members of each segment that have places.
	placed map[segment][]*corev1.Pod
}

// segmentsFor returns the segments of the members, nil if there are none.
func (m *members) segmentsFor(l layout) *segmentAssignment {
	if l.segment > 0 && m.segments == nil {
		m.segments = newSegmentAssignment(l, m.waiting, m.placed)
	}
	return m.segments
}

// newSegmentAssignment assigns members to segments. Members without a number, such as the pods of a Deployment, are counted in the order of
// their names.
func newSegmentAssignment(l layout, waiting, placed []*corev1.Pod) *segmentAssignment {
	s := &segmentAssignment{segmentByPod: make(map[types.UID]segment, len(waiting)+len(placed)), placed: map[segment][]*corev1.Pod{}}
	var others []*corev1.Pod
	for _, pod := range slices.Concat(waiting, placed) {
		row, number, ok := memberNumber(pod)
		if !ok {
			others = append(others, pod)
			continue
		}
		s.segmentByPod[pod.UID] = segment{row, number / l.segment}
	}
	counted := map[types.UID]int{} // by owner
	for _, pod := range sortByIndex(others) {
		owner := ownerOf(pod)
		s.segmentByPod[pod.UID] = segment{string(owner), counted[owner] / l.segment}
		counted[owner]++
	}
	for _, pod := range placed {
		s.placed[s.segmentByPod[pod.UID]] = append(s.placed[s.segmentByPod[pod.UID]], pod)
	}
	return s
}

// maxDigits bounds the length of a number in a name.
const maxDigits = "9999"

// memberNumber returns a member's number in a row: its index in its Job, or the suffix of its name, as for a StatefulSet's pod. A longer number does
// not count: the five characters that Kubernetes generates may all be digits.
func memberNumber(pod *corev1.Pod) (row string, number int, ok bool) {
	if text, ok := pod.Annotations[batchv1.JobCompletionIndexAnnotation]; ok {
		if index, err := strconv.Atoi(text); err == nil {
			return "/" + string(ownerOf(pod)), index, true
		}
	}
	dash := strings.LastIndexByte(pod.Name, '-')
	digits := pod.Name[dash+1:]
	if dash < 1 || len(digits) > len(maxDigits) || strings.Trim(digits, "0123456789") != "" {
		return "", 0, false
	}
	number, err := strconv.Atoi(digits)
	return pod.Name[:dash+1], number, err == nil
}

// sortMembers sorts members so that those of a segment are adjacent, and the segments by rank.
func (s *segmentAssignment) sortMembers(pods []*corev1.Pod) []*corev1.Pod {
	pods = sortByIndex(pods)
	if s == nil {
		return pods
	}
	first := map[segment]int{}
	for i, pod := range pods {
		if _, known := first[s.segmentByPod[pod.UID]]; !known {
			first[s.segmentByPod[pod.UID]] = i
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Compare(first[s.segmentByPod[a.UID]], first[s.segmentByPod[b.UID]])
	})
	return pods
}

// pendingMembers are the members to be placed.
type pendingMembers struct {
	classes []podClass
	// varied says that their requirements differ too much to be planned for.
	varied bool
	// blocks are the pending members of each segment, by rank; nil without segments. completeSegments is how many segments have no pending members.
	blocks           []segmentBlock
	completeSegments int
}

// segmentBlock is the pending members of a segment: count pods of one role, in the order of its class.
type segmentBlock struct {
	role, count int
	// beside is the node of a placed member, "" for none.
	beside string
}

// newPendingMembers groups members by their requirements, and by their segments. nodesOf returns the nodes of members with places.
func newPendingMembers(l layout, some []*corev1.Pod, m *members, nodesOf func([]*corev1.Pod) []string) pendingMembers {
	s := m.segmentsFor(l)
	pods := s.sortMembers(some)
	kinds := newPodClasses(pods)
	all := pendingMembers{classes: kinds.classes, varied: kinds.varied}
	if s == nil || kinds.varied {
		return all
	}
	roles, known := rolesOf(kinds.classes), sets.New[segment]()
	for _, pod := range pods {
		of, role := s.segmentByPod[pod.UID], roles[pod.UID]
		if known.Has(of) {
			last := &all.blocks[len(all.blocks)-1]
			last.count++
			all.varied = all.varied || last.role != role
			continue
		}
		known.Insert(of)
		next := segmentBlock{role: role, count: 1}
		if nodes := nodesOf(sortByIndex(s.placed[of])); len(nodes) > 0 {
			next.beside = nodes[0]
		}
		all.blocks = append(all.blocks, next)
	}
	for of := range s.placed {
		if !known.Has(of) {
			all.completeSegments++
		}
	}
	return all
}

// rolesOf returns the role number of each member.
func rolesOf(kinds []podClass) map[types.UID]int {
	roles := map[types.UID]int{}
	for role := range kinds {
		for _, pod := range kinds[role].pods {
			roles[pod.UID] = role
		}
	}
	return roles
}

// setSegments requires one domain for each segment.
func (s *nodeDomain) setSegments(of pendingMembers) {
	if of.blocks == nil {
		return
	}
	s.segments = &gangplan.Segments{Level: s.level, Preferred: !s.required}
	for _, block := range of.blocks {
		beside, known := s.nodeNumber(block.beside)
		if !known {
			beside = -1
		}
		s.segments.All = append(s.segments.All, gangplan.Segment{Role: block.role, Count: block.count, Beside: beside})
	}
	s.completeSegments = of.completeSegments
}

// eachBlock calls visit for each block with its pods, until that returns false.
func (of *pendingMembers) eachBlock(visit func(at int, pods []*corev1.Pod) bool) {
	next := make([]int, len(of.classes))
	for i, block := range of.blocks {
		from := next[block.role]
		next[block.role] += block.count
		if !visit(i, of.classes[block.role].pods[from:next[block.role]]) {
			return
		}
	}
}

// areSegmentsTogether reports whether the nominated nodes of each segment are in one domain, together with its placed members.
func (s *nodeDomain) areSegmentsTogether(of pendingMembers) bool {
	together := true
	of.eachBlock(func(at int, pods []*corev1.Pod) bool {
		nodes := s.nodeNumbers([]string{of.blocks[at].beside})
		for _, pod := range pods {
			nodes = append(nodes, s.nodeNumbers([]string{pod.Status.NominatedNodeName})...)
		}
		together = s.tree.CommonDomain(nodes).Level >= s.level
		return together
	})
	return together
}

// segmentDomains returns the nodes of the domain found for each member.
func (s *nodeDomain) segmentDomains(of pendingMembers, found *gangplan.Plan) map[types.UID]sets.Set[string] {
	inside, next := map[types.UID]sets.Set[string]{}, make([]int, len(of.classes))
	of.eachBlock(func(at int, pods []*corev1.Pod) bool {
		role := of.blocks[at].role
		domain := s.namesOf(s.tree.NodeDomain(found.Places[role][next[role]], s.level).Nodes)
		next[role] += len(pods)
		for _, pod := range pods {
			inside[pod.UID] = domain
		}
		return true
	})
	return inside
}
