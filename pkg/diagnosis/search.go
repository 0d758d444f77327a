package diagnosis

import (
	"cmp"
	"fmt"
	"maps"
	"slices"
	"strings"
	"time"

	"github.com/agnivade/levenshtein"
	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/fit"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/inventory"
)

const second = time.Second

// search looks for a place for one pod, and remembers what was in the way.
type search struct {
	facts      *Facts
	request    *fit.Request
	topologies gpu.Topologies // of all nodes
	// judged are the nodes of its pool and type.
	judged []judged
}

func (s *search) explain(verdict string) ([]Finding, []NearMiss) {
	inPool := slices.DeleteFunc(slices.Clone(s.facts.Nodes), func(node corev1.Node) bool {
		return s.request.Pool != "" && gpu.PoolOf(&node) != s.request.Pool
	})
	if len(inPool) == 0 {
		return s.wrongPool(), nil
	}
	holders := map[string][]*corev1.Pod{}
	for i := range s.facts.Holders {
		pod := &s.facts.Holders[i]
		holders[pod.Spec.NodeName] = append(holders[pod.Spec.NodeName], pod)
	}
	for i := range inPool {
		if node := &inPool[i]; s.request.Types.Match(node) {
			s.judged = append(s.judged, s.judge(node, holders[node.Name]))
		}
	}
	if len(s.judged) == 0 {
		return one(s.noSuchType(inPool)), nil
	}
	return s.blockers(verdict), s.nearMisses()
}

// cluster sums up the nodes, for what there is elsewhere.
func (s *search) cluster() inventory.Cluster {
	return inventory.Build(inventory.Objects{Nodes: s.facts.Nodes, Pods: s.facts.Holders})
}

// where names the pool in a sentence.
func (s *search) where() string {
	switch s.request.Pool {
	case "":
		return "the cluster"
	case names.DefaultPool:
		return "pool default (the nodes without a label " + names.LabelPool + ")"
	}
	return "pool " + s.request.Pool
}

// wrongPool explains that the job's pool has no nodes, and what to mend beside: a type that no node has either.
func (s *search) wrongPool() []Finding {
	out := one(s.noSuchPool())
	everywhere := *s.request
	everywhere.Pool = ""
	if len(s.facts.Nodes) > 0 && !slices.ContainsFunc(s.facts.Nodes, func(node corev1.Node) bool { return everywhere.InScope(&node) }) {
		anywhere := &search{facts: s.facts, request: &everywhere}
		out = append(out, anywhere.noSuchType(s.facts.Nodes))
	}
	return out
}

// moveTo is the command that moves the job.
func (s *search) moveTo(pool string) string {
	return fmt.Sprintf("gpuctl move %s -n %s --pool %s", s.facts.Job.Name, s.facts.Job.Namespace, pool)
}

func (s *search) noSuchPool() Finding {
	pools := s.cluster().Pools
	known := make([]string, len(pools))
	listed := make([]string, len(pools))
	for i, pool := range pools {
		known[i] = pool.Name
		listed[i] = fmt.Sprintf("%s (%d of %d GPUs free)", pool.Name, pool.GPUs.Free, pool.GPUs.Allocatable)
	}
	out := Finding{Cause: NoSuchPool, Text: "no node is in " + s.where()}
	if len(pools) == 0 {
		out.Text = "the cluster has no nodes"
		out.Advice = []string{"have the administrators add nodes"}
		return out
	}
	if near := nearest(s.request.Pool, known); near != "" {
		out.Advice = append(out.Advice, fmt.Sprintf("did you mean pool %s? Move the job there: %s", near, s.moveTo(near)))
	}
	out.Advice = append(out.Advice, "name a pool that has nodes: "+listOf(shortened(listed)))
	if len(out.Advice) == 1 {
		out.Advice = append(out.Advice, "move the job there: "+s.moveTo("POOL"))
	}
	return out
}

// noSuchType explains that no node of the pool has a type that the pod takes.
func (s *search) noSuchType(inPool []corev1.Node) Finding {
	asked := s.request.Types.Names()
	here := typesOf(inPool)
	out := Finding{Nodes: len(inPool), Text: fmt.Sprintf("no node of %s has GPU type %s", s.where(), strings.Join(asked, " or "))}
	for _, gpuType := range asked {
		if near := nearestType(gpuType, here); near != "" {
			out.Cause = TypeMisspelt
			out.Advice = append(out.Advice, fmt.Sprintf("did you mean %s? Types are matched exactly, also in upper and lower case", near))
		}
	}
	elsewhere := s.poolsWithType(0)
	if len(elsewhere) > 0 {
		out.Cause = cmp.Or(out.Cause, TypeInOtherPool)
		out.Advice = append(out.Advice, "use a pool that has it: "+listOf(shortened(elsewhere)), "move the job there: "+s.moveTo("POOL"))
	}
	if len(here) > 0 {
		out.Advice = append(out.Advice, fmt.Sprintf("ask for a type that %s has: %s", s.where(), listOf(shortened(here))))
	}
	out.Cause = cmp.Or(out.Cause, NoSuchType)
	return out
}

// poolsWithType lists the other pools that have nodes of a type that the pod takes, of which one has a number of GPUs
// free; the most free first.
func (s *search) poolsWithType(free int64) []string {
	type offer struct {
		pool              string
		free, total, most int64
	}
	offers := map[string]*offer{}
	cluster := s.cluster()
	for i := range s.facts.Nodes {
		node := &s.facts.Nodes[i]
		row, ok := cluster.Node(node.Name)
		if !ok || row.Pool == s.request.Pool || !s.request.Types.Match(node) {
			continue
		}
		if offers[row.Pool] == nil {
			offers[row.Pool] = &offer{pool: row.Pool}
		}
		o := offers[row.Pool]
		o.free, o.total, o.most = o.free+row.GPUs.Free, o.total+row.GPUs.Allocatable, max(o.most, row.GPUs.Free)
	}
	sorted := slices.SortedFunc(maps.Values(offers), func(a, b *offer) int {
		return cmp.Or(cmp.Compare(b.free, a.free), cmp.Compare(a.pool, b.pool))
	})
	var out []string
	for _, o := range sorted {
		if o.most >= free && o.total > 0 {
			out = append(out, fmt.Sprintf("%s (%d of %d such GPUs free)", o.pool, o.free, o.total))
		}
	}
	return out
}

func typesOf(nodes []corev1.Node) []string {
	var out []string
	for i := range nodes {
		if gpuType := gpu.TypeOf(&nodes[i]); gpuType != "" {
			out = append(out, gpuType)
		}
	}
	slices.Sort(out)
	return slices.Compact(out)
}

// mostListed is how many pools, types or nodes a sentence names.
const mostListed = 5

func shortened(values []string) []string {
	if rest := len(values) - mostListed; rest > 0 {
		return append(slices.Clone(values[:mostListed]), fmt.Sprintf("and %d more", rest))
	}
	return values
}

// furthest is the number of wrong letters up to which another name may be meant: more in a long one, as in train-pool
// for training-pool.
func furthest(name string) int { return max(2, len(name)/4) }

// nearestType returns the known GPU type that is probably meant, "" if none is: never that of another model.
func nearestType(asked string, known []string) string {
	return nearest(asked, slices.DeleteFunc(slices.Clone(known), func(t string) bool { return !gpu.SameModel(asked, t) }))
}

// nearest returns the known word that is probably meant, "" if none is.
func nearest(word string, known []string) string {
	best, distance := "", len(word)+1
	for _, candidate := range known {
		if strings.EqualFold(word, candidate) {
			return candidate
		}
		d := levenshtein.ComputeDistance(strings.ToLower(word), strings.ToLower(candidate))
		if d < distance && d <= furthest(candidate) && 2*d < len(candidate) {
			best, distance = candidate, d
		}
	}
	return best
}
