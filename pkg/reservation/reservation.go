// Package reservation decides which nodes are closed to a pod, for whom and until when: those of GPUReservations whose windows the pod could overlap.
// A pod without a time limit could stay forever, as in Slurm.
package reservation

import (
	"cmp"
	"fmt"
	"hash/maphash"
	"slices"
	"time"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
)

// Window is the reservation of some nodes for a time range.
type Window struct {
	Name string
	// Revision changes with the nodes, times and namespaces.
	Revision string
	// Pool is the pool whose nodes are all reserved, "" if Nodes names them.
	Pool     string
	Nodes    []string
	From, To time.Time
	// Namespaces are those whose pods may use the nodes. None means that no pods may.
	Namespaces []string
	Reason     string
}

// WindowOf converts a GPUReservation. One that does not end after it begins has no effect; the API server rejects such.
func WindowOf(r *names.GPUReservation) Window {
	return Window{
		Name: r.Name, Revision: fmt.Sprint(r.UID, "/", r.Generation), Pool: r.Spec.Pool, Nodes: r.Spec.Nodes,
		From: r.Spec.From.Time, To: r.Spec.To.Time, Namespaces: r.Spec.Namespaces, Reason: r.Spec.Reason,
	}
}

// KeepsNode reports whether a node is reserved.
func (w *Window) KeepsNode(node *corev1.Node) bool {
	return slices.Contains(w.Nodes, node.Name) || w.Pool != "" && w.Pool == gpu.PoolOf(node)
}

// admitsNamespace reports whether pods of a namespace may run there during the window.
func (w *Window) admitsNamespace(namespace string) bool {
	return slices.Contains(w.Namespaces, namespace)
}

// Margin is the tolerance for a pod to start after its placement, before its node counts its run time, and for clock differences.
const Margin = time.Minute

// DeadlineSlack is how much longer the deadline of a pod is than its job's time limit. The Job's limit ends it earlier and gives the reason; the
// pod's deadline holds whatever happens to the Job.
const DeadlineSlack = time.Minute

// mostSeconds is 68 years; larger values would overflow.
const mostSeconds = 1<<31 - 1

// defaultGrace is the default termination grace period in seconds.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds

// MaxStay returns how long a pod may be on a node at most, from its placement until it is gone, and false for one without a limit. Only the pod's own
// deadline counts: its node enforces it, and it cannot be extended.
func MaxStay(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	return boundedSeconds(*pod.Spec.ActiveDeadlineSeconds) + gracePeriod(pod) + Margin, true
}

// SameMaxStay reports whether two pods have the same maximum stay.
func SameMaxStay(a, b *corev1.Pod) bool {
	first, limited := MaxStay(a)
	second, also := MaxStay(b)
	return first == second && limited == also
}

// LongestTimeLimit returns the longest time limit of a job with which its pod, placed now, is gone by a time, 0 for none.
func LongestTimeLimit(pod *corev1.Pod, now, by time.Time) time.Duration {
	return max(0, by.Sub(now)-gracePeriod(pod)-Margin-DeadlineSlack).Truncate(time.Minute)
}

func gracePeriod(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return boundedSeconds(defaultGrace)
	}
	return boundedSeconds(*pod.Spec.TerminationGracePeriodSeconds)
}

func boundedSeconds(count int64) time.Duration {
	return time.Duration(min(max(count, 0), mostSeconds)) * time.Second
}

// Book holds all windows, ordered by their begin, indexed by node. It is immutable; nil has none.
type Book struct {
	windows []Window
	// sums are hashes of the windows.
	sums []uint64
	// ofNode and ofPool are the windows that keep a node by its name, and by its pool.
	ofNode, ofPool map[string][]int32
}

var seed = maphash.MakeSeed()

// NewBook returns a book of windows.
func NewBook(windows []Window) *Book {
	if len(windows) == 0 {
		return nil
	}
	windows = slices.Clone(windows)
	slices.SortFunc(windows, func(a, b Window) int { return cmp.Or(a.From.Compare(b.From), cmp.Compare(a.Name, b.Name)) })
	book := &Book{windows: windows, sums: make([]uint64, len(windows)), ofNode: map[string][]int32{}, ofPool: map[string][]int32{}}
	for i := range windows {
		w, number := &windows[i], int32(i)
		book.sums[i] = maphash.String(seed, w.Name+"/"+w.Revision)
		for _, node := range w.Nodes {
			book.ofNode[node] = append(book.ofNode[node], number)
		}
		if w.Pool != "" {
			book.ofPool[w.Pool] = append(book.ofPool[w.Pool], number)
		}
	}
	return book
}

// BookOf returns the book of GPUReservations.
func BookOf(objects []names.GPUReservation) *Book {
	windows := make([]Window, len(objects))
	for i := range objects {
		windows[i] = WindowOf(&objects[i])
	}
	return NewBook(windows)
}

// ClosedFor returns the windows that keep a pod placed now off nodes, nil for none. It is called once per attempt and costs one check per window,
// regardless of the number of nodes.
func (b *Book) ClosedFor(pod *corev1.Pod, now time.Time) *ClosedWindows {
	if b == nil {
		return nil
	}
	stay, limited := MaxStay(pod)
	c := ClosedWindows{book: b, namespace: pod.Namespace, now: now, gone: now.Add(stay), limited: limited}
	if !slices.ContainsFunc(b.windows, func(w Window) bool { return c.blocksIn(&w) }) {
		return nil
	}
	return &c
}

// NextEnd returns when the next window ends after a time, the zero time for none.
func (b *Book) NextEnd(after time.Time) (next time.Time) {
	if b == nil {
		return next
	}
	for i := range b.windows {
		if end := b.windows[i].To; end.After(after) && (next.IsZero() || end.Before(next)) {
			next = end
		}
	}
	return next
}

// ReleasedWindows returns the windows that no longer reserve nodes, or fewer: those that ended between two times, and those of the first book that the
// second one lacks or has changed.
func ReleasedWindows(before, after *Book, from, to time.Time) (released []Window) {
	if before == nil {
		return nil
	}
	stays := map[string]bool{}
	if after != nil {
		for i := range after.windows {
			stays[after.windows[i].Revision] = true
		}
	}
	for i := range before.windows {
		w := &before.windows[i]
		if w.To.After(from) && (!w.To.After(to) || !stays[w.Revision]) {
			released = append(released, *w)
		}
	}
	return released
}

// HasKeptOut reports whether any of the windows, ended or not, has kept a waiting pod off its nodes until now.
func HasKeptOut(windows []Window, pod *corev1.Pod, now time.Time) bool {
	stay, limited := MaxStay(pod)
	for i := range windows {
		if w := &windows[i]; !w.admitsNamespace(pod.Namespace) && (!limited || now.Add(stay).After(w.From)) {
			return true
		}
	}
	return false
}

// ClosedWindows are the windows that keep a pod off nodes. nil has none.
type ClosedWindows struct {
	book      *Book
	namespace string
	// now is when the pod is placed. gone is when it is gone at the latest, if its time is limited.
	now, gone time.Time
	limited   bool
}

// blocksIn reports whether the pod could overlap a window that does not admit it.
func (c *ClosedWindows) blocksIn(w *Window) bool {
	return w.To.After(c.now) && w.To.After(w.From) && (!c.limited || c.gone.After(w.From)) && !w.admitsNamespace(c.namespace)
}

// FirstOn returns the first window that keeps the pod off a node, nil for none.
func (c *ClosedWindows) FirstOn(node *corev1.Node) *Window {
	if c == nil || node == nil {
		return nil
	}
	first := c.firstBlocking(c.book.ofNode[node.Name])
	if len(c.book.ofPool) > 0 {
		if of := c.firstBlocking(c.book.ofPool[gpu.PoolOf(node)]); first < 0 || of >= 0 && of < first {
			first = of
		}
	}
	if first < 0 {
		return nil
	}
	return &c.book.windows[first]
}

// OpensAt returns all windows that keep the pod off a node, ordered by their begin, if it waits until none does, and the time of that: now and no
// windows if none does. While it waits for one window, it may run into the next.
func (c *ClosedWindows) OpensAt(node *corev1.Node) (windows []*Window, at time.Time) {
	if c == nil || node == nil {
		return nil, at
	}
	later, seen := *c, map[int32]bool{}
	numbers := slices.Concat(c.book.ofNode[node.Name], c.book.ofPool[gpu.PoolOf(node)])
	slices.Sort(numbers)
	for waits := true; waits; {
		waits = false
		opens := later.now
		for _, number := range numbers {
			if w := &c.book.windows[number]; later.blocksIn(w) {
				seen[number], waits = true, true
				opens = latestTime(opens, w.To)
			}
		}
		later.gone, later.now = later.gone.Add(opens.Sub(later.now)), opens
	}
	for _, number := range slices.Compact(numbers) {
		if seen[number] {
			windows = append(windows, &c.book.windows[number])
		}
	}
	return windows, later.now
}

func latestTime(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// firstBlocking returns the first of the windows that counts, -1 for none.
func (c *ClosedWindows) firstBlocking(of []int32) int32 {
	for _, number := range of {
		if c.blocksIn(&c.book.windows[number]) {
			return number
		}
	}
	return -1
}

// Fingerprint is equal for the same windows, 0 for none.
func (c *ClosedWindows) Fingerprint() (sum uint64) {
	if c == nil {
		return 0
	}
	for i := range c.book.windows {
		if c.blocksIn(&c.book.windows[i]) {
			sum = sum*31 + c.book.sums[i]
		}
	}
	return sum
}
