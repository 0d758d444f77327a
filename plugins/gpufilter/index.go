package gpufilter

import (
	"fmt"
	"slices"
	"strings"
	"sync"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/util/sets"
	"k8s.io/client-go/tools/cache"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/cycle/shortlist"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

// indexName is the index that this plugin adds to the scheduler's node informer.
const indexName = "gpufilter.g8s.host/pool-and-type"

// maxNamedValues is how many pools or types an explanation names.
const maxNamedValues = 5

// nodeIndex finds nodes by pool and GPU type, at a cost that grows with the result and not with the cluster.
//
// It lives in the store of the scheduler's own node informer. An informer updates its store before it calls any event handler, and the
// scheduler's cache is fed by such a handler, so the index is never older than the snapshot of a scheduling cycle. It may be newer: a node that
// has just moved to another pool is then missing from its old pool, or offered in its new one and rejected by Filter. In both cases the event of
// the move is still to come, and its queueing hint retries the pod.
type nodeIndex struct {
	store cache.Indexer
	// membership changes when the set of nodes changes.
	membership *membership
}

// nodeIndices are the indices of the informers of one process, shared by all profiles. The zero value has none.
type nodeIndices struct {
	mu    sync.Mutex
	known map[cache.Indexer]nodeIndex
}

// indexFor returns the index of an informer, and adds it for the first profile that needs it.
func (x *nodeIndices) indexFor(informer cache.SharedIndexInformer) (nodeIndex, error) {
	x.mu.Lock()
	defer x.mu.Unlock()
	if index, ok := x.known[informer.GetIndexer()]; ok {
		return index, nil
	}
	index, err := newNodeIndex(informer)
	if err != nil {
		return nodeIndex{}, err
	}
	if x.known == nil {
		x.known = map[cache.Indexer]nodeIndex{}
	}
	x.known[index.store] = index
	return index, nil
}

// newNodeIndex adds the index to an informer that has none.
func newNodeIndex(informer cache.SharedIndexInformer) (nodeIndex, error) {
	index := nodeIndex{store: informer.GetIndexer(), membership: &membership{}}
	if err := informer.AddIndexers(cache.Indexers{indexName: index.membership.nodeKeys}); err != nil {
		return nodeIndex{}, fmt.Errorf("indexing nodes by pool and GPU type: %w", err)
	}
	return index, nil
}

// nodeKeys is the index function.
func (m *membership) nodeKeys(obj any) ([]string, error) {
	node, ok := obj.(*corev1.Node)
	if !ok {
		return nil, fmt.Errorf("indexing nodes: object is %T, want *Node", obj)
	}
	keys := indexKeys(node)
	m.recordIndexed(node, keys)
	return keys, nil
}

// indexKeys returns the keys that a node is found by: its pool, and each of its types with and without it.
func indexKeys(node *corev1.Node) []string {
	pool := gpu.PoolOf(node)
	keys := []string{pool}
	for _, label := range names.GPUTypeLabels {
		if gpuType := node.Labels[label]; gpuType != "" {
			keys = append(keys, indexKey(pool, gpuType), indexKey("", gpuType))
		}
	}
	for _, product := range gpu.ModelsOf(node) {
		keys = append(keys, indexKey(pool, product), indexKey("", product))
	}
	slices.Sort(keys)
	return slices.Compact(keys)
}

// indexKey joins a pool and a type; either may be empty. Label values hold no slash, so keys are unambiguous.
func indexKey(pool, gpuType string) string {
	if gpuType == "" {
		return pool
	}
	return pool + "/" + gpuType
}

// candidateNames returns the names of the nodes in pool that carry one of types. An empty pool is every pool; no
// types are every type. At least one of the two must be given.
func (x nodeIndex) candidateNames(pool string, types []string) (sets.Set[string], error) {
	if len(types) == 0 {
		types = []string{""}
	}
	var found sets.Set[string]
	for _, gpuType := range types {
		nodes, err := x.store.IndexKeys(indexName, indexKey(pool, gpuType))
		if err != nil {
			return nil, fmt.Errorf("looking up nodes of pool %q and type %q: %w", pool, gpuType, err)
		}
		if found == nil {
			found = make(sets.Set[string], len(nodes))
		}
		found.Insert(nodes...)
	}
	return found, nil
}

// getNode returns a node by name, or nil.
func (x nodeIndex) getNode(name string) *corev1.Node {
	obj, ok, err := x.store.GetByKey(name)
	if err != nil || !ok {
		return nil
	}
	node, _ := obj.(*corev1.Node)
	return node
}

// explainNone returns why there is no candidate, and what exists instead.
func (x nodeIndex) explainNone(pool string, types []string) string {
	keys := x.store.ListIndexFuncValues(indexName)
	if pool == "" {
		return reason.TypeUnknown.Text.FormatText(quoteAlternatives(types))
	}
	if !slices.Contains(keys, pool) {
		pools := slices.DeleteFunc(keys, func(key string) bool { return strings.Contains(key, "/") })
		return reason.PoolUnknown.Text.FormatText(pool, listValues("pools", pools))
	}
	return reason.TypeNotInPool.Text.FormatText(pool, quoteAlternatives(types),
		listValues("types", x.typesOf(pool)))
}

// typesOf returns the types of the nodes in a pool.
func (x nodeIndex) typesOf(pool string) []string {
	nodes, err := x.store.ByIndex(indexName, pool)
	if err != nil {
		return nil
	}
	types := sets.Set[string]{}
	for _, obj := range nodes {
		node, ok := obj.(*corev1.Node)
		if !ok {
			continue
		}
		types.Insert(gpu.ModelsOf(node)...)
		if gpuType := gpu.TypeOf(node); gpuType != "" {
			types.Insert(gpuType)
		}
	}
	return types.UnsortedList()
}

// listValues names the first of values, in order, and counts the rest: "pools: a, b and 3 more".
func listValues(what string, values []string) string {
	if len(values) == 0 {
		return "there are no " + what
	}
	values = slices.Sorted(slices.Values(values))
	if rest := len(values) - maxNamedValues; rest > 0 {
		return fmt.Sprintf("%s: %s and %d more", what, strings.Join(values[:maxNamedValues], ", "), rest)
	}
	return what + ": " + strings.Join(values, ", ")
}

// quoteAlternatives joins alternatives: "a" or "b".
func quoteAlternatives(values []string) string {
	quotes := make([]string, len(values))
	for i, value := range values {
		quotes[i] = fmt.Sprintf("%q", value)
	}
	return strings.Join(quotes, " or ")
}

// maxWeight bounds the cache, by the node names that it holds. Each weighs some 45 bytes, so that is about 12 MiB. Pods may name any pool and
// any 32 types, so users can produce any number of combinations; a pool of 5,000 nodes has room for 50 of them.
const maxWeight = 1 << 18

// candidateCache caches the nodes of pools and types. An informer computes the keys of a node before the index can be read in its new state, so
// a cached entry is never older than the version it carries. Only one goroutine uses it.
//
// The cache has two halves: recent entries, and older ones. When the first half is full it replaces the second, so entries that many pods use
// outlive those of a user who requests all possible combinations.
type candidateCache struct {
	index        nodeIndex
	recent, past map[string]cachedCandidates
	weight       int // of lately
}

// cachedCandidates is a set of candidates, and the version of the index at which it was found to be valid.
type cachedCandidates struct {
	candidates *shortlist.Candidates
	at         uint64
}

// cacheWeight returns the memory cost of candidates, in node names. The key of an entry without nodes can outweigh it.
func cacheWeight(candidates *shortlist.Candidates) int {
	return 1 + candidates.Names.Len() + len(candidates.Key)/32
}

// candidatesFor returns the nodes in pool that carry one of types, as nodeIndex.candidateNames does. While they are the same nodes,
// they are the same value.
func (c *candidateCache) candidatesFor(pool string, types []string) (*shortlist.Candidates, error) {
	sorted := slices.Compact(slices.Sorted(slices.Values(types))) // the order does not matter
	key := indexKey(pool, strings.Join(sorted, ","))
	last, now := c.getCached(key), c.index.membership.version.Load()
	if last.candidates != nil && last.at == now {
		return last.candidates, nil
	}
	names, err := c.index.candidateNames(pool, sorted)
	if err != nil {
		return nil, err
	}
	if last.candidates == nil || !last.candidates.Names.Equal(names) {
		last.candidates = &shortlist.Candidates{Key: key, Names: names}
	}
	c.putCached(key, cachedCandidates{candidates: last.candidates, at: now})
	return last.candidates, nil
}

// getCached returns the entry of a key, and moves an older entry to the recent half.
func (c *candidateCache) getCached(key string) cachedCandidates {
	if known, ok := c.recent[key]; ok {
		return known
	}
	known, ok := c.past[key]
	if ok {
		delete(c.past, key)
		c.putCached(key, known)
	}
	return known
}

func (c *candidateCache) putCached(key string, known cachedCandidates) {
	if before, ok := c.recent[key]; ok {
		c.weight -= cacheWeight(before.candidates)
	} else if c.recent == nil || c.weight+cacheWeight(known.candidates) > maxWeight/2 {
		c.past, c.recent, c.weight = c.recent, map[string]cachedCandidates{}, 0
	}
	c.recent[key] = known
	c.weight += cacheWeight(known.candidates)
}
