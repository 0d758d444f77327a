package simulate

import (
	"cmp"
	"container/heap"
	"time"
)

// ending is when a pod ends, if it is still the one that was started then.
type ending struct {
	at    time.Duration
	pod   *entry
	start int
}

// leaves is the start of a pod that leaves whenever it was started, or was not.
const leaves = -1

// endings is a heap of pods, the one that ends first on top.
type endings []ending

func (e *endings) push(x ending) { heap.Push(e, x) }
func (e *endings) pop() ending   { return heap.Pop(e).(ending) }

func (e endings) Len() int { return len(e) }
func (e endings) Less(i, j int) bool {
	return cmp.Or(cmp.Compare(e[i].at, e[j].at), cmp.Compare(e[i].pod.order, e[j].pod.order)) < 0
}
func (e endings) Swap(i, j int) { e[i], e[j] = e[j], e[i] }

// Push implements heap.Interface.
func (e *endings) Push(x any) { *e = append(*e, x.(ending)) }

// Pop implements heap.Interface.
func (e *endings) Pop() any {
	last := len(*e) - 1
	x := (*e)[last]
	*e = (*e)[:last]
	return x
}
