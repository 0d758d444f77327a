package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// event is when a pod ends, if it is still the one that was started then.
type event struct {
	at    time.Duration
	pod   *entry
	start int
}

// leaveEvent is the start of a pod that leaves regardless of its starts.
const leaveEvent = -1

// eventQueue is a heap of future events, the next one on top.
type eventQueue []event

func (e *eventQueue) push(x event) { heap.Push(e, x) }
func (e *eventQueue) pop() event   { return heap.Pop(e).(event) }

func (e eventQueue) Len() int { return len(e) }
func (e eventQueue) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].pod.order, e[j].pod.order)) < 0
}
func (e eventQueue) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *eventQueue) Push(x any) { *e = append(*e, x.(event)) }

// Pop implements heap.Interface.
func (e *eventQueue) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
