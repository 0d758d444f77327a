package forecast

import "time"

// jobEnd is when a job ends.
type jobEnd struct {
	at  time.Duration
	job int32
}

// endsBefore also orders simultaneous ends, so that nothing depends on the order of insertion.
func (e jobEnd) endsBefore(other jobEnd) bool {
	return e.at < other.at || e.at == other.at && e.job < other.job
}

// endHeap has the job that ends first at its root. It is container/heap without interfaces, which would take most of the time.
type endHeap []jobEnd

func (h endHeap) initHeap() {
	for i := len(h)/2 - 1; i >= 0; i-- {
		h.siftDown(i)
	}
}

func (h *endHeap) pushEnd(e jobEnd) {
	*h = append(*h, e)
	for i := len(*h) - 1; i > 0; {
		parent := (i - 1) / 2
		if !(*h)[i].endsBefore((*h)[parent]) {
			return
		}
		(*h)[i], (*h)[parent] = (*h)[parent], (*h)[i]
		i = parent
	}
}

func (h *endHeap) popJob() int32 {
	first := (*h)[0].job
	last := len(*h) - 1
	(*h)[0] = (*h)[last]
	*h = (*h)[:last]
	h.siftDown(0)
	return first
}

func (h endHeap) siftDown(i int) {
	for {
		least := i
		for child := 2*i + 1; child <= 2*i+2 && child < len(h); child++ {
			if h[child].endsBefore(h[least]) {
				least = child
			}
		}
		if least == i {
			return
		}
		h[i], h[least] = h[least], h[i]
		i = least
	}
}
