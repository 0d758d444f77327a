package placement

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

// Segment identifies members that are placed in one domain: those of one row whose numbers, divided by the segment size, are equal. It depends
// on each member alone, so a replacement belongs to the same segment.
type Segment struct {
	Row    string
	Number int
}

// segmentAssignment assigns the members of a gang to segments.
type segmentAssignment struct {
	SegmentByPod map[types.UID]Segment
	// Placed are the members of each segment that have places.
	Placed map[Segment][]*corev1.Pod
}

// SegmentsFor returns the segments of the members, nil if there are none.
func (m *Members) SegmentsFor(l Layout) *segmentAssignment {
	if l.Segment > 0 && m.segments == nil {
		m.segments = NewSegmentAssignment(l, m.Waiting, m.Placed)
	}
	return m.segments
}

// NewSegmentAssignment assigns members to segments. Members without a number, such as the pods of a Deployment, are counted in the order of
// their names.
func NewSegmentAssignment(l Layout, waiting, placed []*corev1.Pod) *segmentAssignment {
	s := &segmentAssignment{SegmentByPod: make(map[types.UID]Segment, len(waiting)+len(placed)), Placed: map[Segment][]*corev1.Pod{}}
	var others []*corev1.Pod
	for _, pod := range slices.Concat(waiting, placed) {
		row, number, ok := memberNumber(pod)
		if !ok {
			others = append(others, pod)
			continue
		}
		s.SegmentByPod[pod.UID] = Segment{row, number / l.Segment}
	}
	counted := map[types.UID]int{} // by owner
	for _, pod := range sortByIndex(others) {
		owner := OwnerOf(pod)
		s.SegmentByPod[pod.UID] = Segment{string(owner), counted[owner] / l.Segment}
		counted[owner]++
	}
	for _, pod := range placed {
		s.Placed[s.SegmentByPod[pod.UID]] = append(s.Placed[s.SegmentByPod[pod.UID]], pod)
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
			return "/" + string(OwnerOf(pod)), index, true
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
	first := map[Segment]int{}
	for i, pod := range pods {
		if _, known := first[s.SegmentByPod[pod.UID]]; !known {
			first[s.SegmentByPod[pod.UID]] = i
		}
	}
	slices.SortStableFunc(pods, func(a, b *corev1.Pod) int {
		return cmp.Compare(first[s.SegmentByPod[a.UID]], first[s.SegmentByPod[b.UID]])
	})
	return pods
}

// PendingMembers are the members to be placed.
type PendingMembers struct {
	Classes []PodClass
	// Varied says that their requirements differ too much to be planned for.
	Varied bool
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

// NewPendingMembers groups members by their requirements, and by their segments. nodesOf returns the nodes of members with places.
func NewPendingMembers(l Layout, some []*corev1.Pod, m *Members, nodesOf func([]*corev1.Pod) []string) PendingMembers {
	s := m.SegmentsFor(l)
	pods := s.sortMembers(some)
	kinds := NewPodClasses(pods)
	all := PendingMembers{Classes: kinds.Classes, Varied: kinds.Varied}
	if s == nil || kinds.Varied {
		return all
	}
	roles, known := rolesOf(kinds.Classes), sets.New[Segment]()
	for _, pod := range pods {
		of, role := s.SegmentByPod[pod.UID], roles[pod.UID]
		if known.Has(of) {
			last := &all.blocks[len(all.blocks)-1]
			last.count++
			all.Varied = all.Varied || last.role != role
			continue
		}
		known.Insert(of)
		next := segmentBlock{role: role, count: 1}
		if nodes := nodesOf(sortByIndex(s.Placed[of])); len(nodes) > 0 {
			next.beside = nodes[0]
		}
		all.blocks = append(all.blocks, next)
	}
	for of := range s.Placed {
		if !known.Has(of) {
			all.completeSegments++
		}
	}
	return all
}

// rolesOf returns the role number of each member.
func rolesOf(kinds []PodClass) map[types.UID]int {
	roles := map[types.UID]int{}
	for role := range kinds {
		for _, pod := range kinds[role].Pods {
			roles[pod.UID] = role
		}
	}
	return roles
}

// SetSegments requires one domain for each segment.
func (s *NodeDomain) SetSegments(of PendingMembers) {
	if of.blocks == nil {
		return
	}
	s.Segments = &gangplan.Segments{Level: s.Level, Preferred: !s.Required}
	for _, block := range of.blocks {
		beside, known := s.NodeNumber(block.beside)
		if !known {
			beside = -1
		}
		s.Segments.All = append(s.Segments.All, gangplan.Segment{Role: block.role, Count: block.count, Beside: beside})
	}
	s.completeSegments = of.completeSegments
}

// eachBlock calls visit for each block with its pods, until that returns false.
func (of *PendingMembers) eachBlock(visit func(at int, pods []*corev1.Pod) bool) {
	next := make([]int, len(of.Classes))
	for i, block := range of.blocks {
		from := next[block.role]
		next[block.role] += block.count
		if !visit(i, of.Classes[block.role].Pods[from:next[block.role]]) {
			return
		}
	}
}

// areSegmentsTogether reports whether the nominated nodes of each segment are in one domain, together with its placed members.
func (s *NodeDomain) areSegmentsTogether(of PendingMembers) bool {
	together := true
	of.eachBlock(func(at int, pods []*corev1.Pod) bool {
		nodes := s.NodeNumbers([]string{of.blocks[at].beside})
		for _, pod := range pods {
			nodes = append(nodes, s.NodeNumbers([]string{pod.Status.NominatedNodeName})...)
		}
		together = s.Tree.CommonDomain(nodes).Level >= s.Level
		return together
	})
	return together
}

// segmentDomains returns the nodes of the domain found for each member.
func (s *NodeDomain) segmentDomains(of PendingMembers, found *gangplan.Plan) map[types.UID]sets.Set[string] {
	inside, next := map[types.UID]sets.Set[string]{}, make([]int, len(of.Classes))
	of.eachBlock(func(at int, pods []*corev1.Pod) bool {
		role := of.blocks[at].role
		domain := s.NamesOf(s.Tree.NodeDomain(found.Places[role][next[role]], s.Level).Nodes)
		next[role] += len(pods)
		for _, pod := range pods {
			inside[pod.UID] = domain
		}
		return true
	})
	return inside
}
