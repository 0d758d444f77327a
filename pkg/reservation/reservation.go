// Package reservation says which nodes are kept from a pod, for whom and until when: those of GPUReservations whose windows
// it could still be there in. A pod without a time limit could be there for ever, as Slurm sees it, too.
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

// Window is for whom some nodes are kept, from a time on and until another.
type Window struct {
	Name string
	// Revision changes with what is kept, when, and for whom.
	Revision string
	// Pool is that of which all nodes are kept, "" where Nodes names them.
	Pool     string
	Nodes    []string
	From, To time.Time
	// Namespaces are those whose pods may be there. None is nobody's.
	Namespaces []string
	Reason     string
}

// Of reads a GPUReservation. One that does not end after it begins keeps nothing; the API server lets none in.
func Of(r *names.GPUReservation) Window {
	return Window{
		Name: r.Name, Revision: fmt.Sprint(r.UID, "/", r.Generation), Pool: r.Spec.Pool, Nodes: r.Spec.Nodes,
		From: r.Spec.From.Time, To: r.Spec.To.Time, Namespaces: r.Spec.Namespaces, Reason: r.Spec.Reason,
	}
}

// Keeps reports whether a node is one of those that are kept.
func (w *Window) Keeps(node *corev1.Node) bool {
	return slices.Contains(w.Nodes, node.Name) || w.Pool != "" && w.Pool == gpu.PoolOf(node)
}

// admits reports whether pods of a namespace may be there during the window.
func (w *Window) admits(namespace string) bool { return slices.Contains(w.Namespaces, namespace) }

// Margin is what a pod is given to begin after it was placed, before its node counts its time: beside, the clocks of
// machines differ.
const Margin = time.Minute

// DeadlineSlack is how much longer a pod of a job with a time limit may run by its own deadline. The Job's ends it before and says
// why; the pod's holds whatever becomes of the Job.
const DeadlineSlack = time.Minute

// mostSeconds is 68 years: what asks for more would overflow.
const mostSeconds = 1<<31 - 1

// defaultGrace is how long a pod that says nothing has to end, in seconds.
const defaultGrace = corev1.DefaultTerminationGracePeriodSeconds

// Stay is for how long a pod may be on a node at most, from when it is placed until it is gone, and false for one without a
// limit. Only the deadline of the pod itself counts: its node sees to that, and nobody can put it off.
func Stay(pod *corev1.Pod) (time.Duration, bool) {
	if pod.Spec.ActiveDeadlineSeconds == nil {
		return 0, false
	}
	return seconds(*pod.Spec.ActiveDeadlineSeconds) + grace(pod) + Margin, true
}

// SameStay reports whether two pods may be on a node for as long as each other.
func SameStay(a, b *corev1.Pod) bool {
	first, limited := Stay(a)
	second, also := Stay(b)
	return first == second && limited == also
}

// Limit is the longest time limit of a job with which a pod of it that is placed now is gone by a time, 0 for none.
func Limit(pod *corev1.Pod, now, by time.Time) time.Duration {
	return max(0, by.Sub(now)-grace(pod)-Margin-DeadlineSlack).Truncate(time.Minute)
}

func grace(pod *corev1.Pod) time.Duration {
	if pod.Spec.TerminationGracePeriodSeconds == nil {
		return seconds(defaultGrace)
	}
	return seconds(*pod.Spec.TerminationGracePeriodSeconds)
}

func seconds(count int64) time.Duration {
	return time.Duration(min(max(count, 0), mostSeconds)) * time.Second
}

// Book is all windows, in the order in which they begin, and which of them keep a node. It is never changed; nil has none.
type Book struct {
	windows []Window
	// sums are a hash of each window.
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
		windows[i] = Of(&objects[i])
	}
	return NewBook(windows)
}

// Against returns what keeps a pod from nodes that is placed now, nil for nothing. It is asked once for an attempt: it costs a
// look at each window, and no more for those with many nodes.
func (b *Book) Against(pod *corev1.Pod, now time.Time) *Closed {
	if b == nil {
		return nil
	}
	stay, limited := Stay(pod)
	c := Closed{book: b, namespace: pod.Namespace, now: now, gone: now.Add(stay), limited: limited}
	if !slices.ContainsFunc(b.windows, func(w Window) bool { return c.counts(&w) }) {
		return nil
	}
	return &c
}

// NextEnd is when the next window ends after a time, the zero time for none.
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

// Released are the windows that keep nodes from nobody any more, or from fewer than before: those that have ended between two
// times, and those of a book that another one lacks or has changed.
func Released(before, after *Book, from, to time.Time) (released []Window) {
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

// KeptOut reports whether any of some windows, ended or not, has kept a pod that waits from its nodes until now.
func KeptOut(windows []Window, pod *corev1.Pod, now time.Time) bool {
	stay, limited := Stay(pod)
	for i := range windows {
		if w := &windows[i]; !w.admits(pod.Namespace) && (!limited || now.Add(stay).After(w.From)) {
			return true
		}
	}
	return false
}

// Closed are the windows that keep a pod from nodes. nil are none.
type Closed struct {
	book      *Book
	namespace string
	// now is when the pod is placed, and gone is when it is gone at the latest, if its time is limited.
	now, gone time.Time
	limited   bool
}

// counts reports whether the pod could be there in a window, and may not.
func (c *Closed) counts(w *Window) bool {
	return w.To.After(c.now) && w.To.After(w.From) && (!c.limited || c.gone.After(w.From)) && !w.admits(c.namespace)
}

// On returns the first window that keeps the pod from a node, nil for none.
func (c *Closed) On(node *corev1.Node) *Window {
	if c == nil || node == nil {
		return nil
	}
	first := c.first(c.book.ofNode[node.Name])
	if len(c.book.ofPool) > 0 {
		if of := c.first(c.book.ofPool[gpu.PoolOf(node)]); first < 0 || of >= 0 && of < first {
			first = of
		}
	}
	if first < 0 {
		return nil
	}
	return &c.book.windows[first]
}

// Until are all windows that keep the pod from a node, in the order in which they begin, if it waits until none does, and when that
// is: now, with no windows, if none does. While it waits for one, it may come to run into the next.
func (c *Closed) Until(node *corev1.Node) (windows []*Window, at time.Time) {
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
			if w := &c.book.windows[number]; later.counts(w) {
				seen[number], waits = true, true
				opens = latest(opens, w.To)
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

func latest(a, b time.Time) time.Time {
	if a.After(b) {
		return a
	}
	return b
}

// first returns the first of some windows that counts, -1 for none.
func (c *Closed) first(of []int32) int32 {
	for _, number := range of {
		if c.counts(&c.book.windows[number]) {
			return number
		}
	}
	return -1
}

// Fingerprint is equal for the same windows, 0 for none.
func (c *Closed) Fingerprint() (sum uint64) {
	if c == nil {
		return 0
	}
	for i := range c.book.windows {
		if c.counts(&c.book.windows[i]) {
			sum = sum*31 + c.book.sums[i]
		}
	}
	return sum
}
