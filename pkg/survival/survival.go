// Package survival learns how long jobs run from those that have ended, and tells how much longer one may that has run for
// some time: the conditional survival of statistics. A job that has run for ten hours is not like those that ended after one,
// so only those count that have run for as long.
//
// Jobs are alike if they are of the same user and about the same size, else of the same user, else of the same pool and
// size, else of the same pool, else any: the narrowest of these that has enough records speaks. What a job ended by does
// not matter, as its GPUs are free in any case.
//
// It is pure, and its memory is bounded whatever users do: names and sizes are theirs to choose. Nobody has more than a part of
// what is kept of jobs of all, so that who runs very many does not speak for the others.
package survival

import (
	"math/bits"
	"slices"
	"time"
)

// Job is what is known of a job before it has run.
type Job struct {
	// Namespace and User are whose it is. A user of another namespace is somebody else: within their own, people may claim to be
	// anybody.
	Namespace, User string
	Pool            string
	// GPUs is what all its pods hold together.
	GPUs int64
}

const (
	// enough is how many records a class must have that have run for as long: with fewer, what is said of one in twenty
	// is said of none.
	enough = 20
	// keep is how many records a class has at most, the newest, and share how many of them one owner may have where others do.
	keep  = 2000
	share = keep / 4
	// most is how many classes there are at most. Which has learnt nothing for longest is forgotten.
	most = 500
)

// class is a set of jobs that are alike. An owner is "" in the classes of all.
type class struct {
	owner owner
	pool  string
	size  int
}

type owner struct{ namespace, user string }

// anySize stands for all sizes, and anyPool for all pools: "" is the pool of those that name none.
const (
	anySize = -1
	anyPool = "*"
)

// own is how many of the classes of a job, the first, are of its owner's jobs alone.
const own = 2

// classesOf are the classes of a job, the narrowest first.
func classesOf(job Job) [5]class {
	size := bits.Len64(uint64(max(job.GPUs, 1) - 1)) // 1, 2, 3 to 4, 5 to 8, …
	its := owner{job.Namespace, job.User}
	return [5]class{
		{its, anyPool, size}, {its, anyPool, anySize}, {owner{}, job.Pool, size}, {owner{}, job.Pool, anySize}, {owner{}, anyPool, anySize},
	}
}

// History is what was learnt. The zero value and nil have learnt nothing.
type History struct {
	classes map[class]*records
	learnt  int64
}

// records are those of a class.
type records struct {
	// all has the newest last, and counts how many are whose.
	all    []record
	counts map[owner]int
	// sorted are how long they have run, in order; nil before it is asked for. What is there is never changed, as distributions share it.
	sorted []time.Duration
	// at is when the last was learnt, as a count.
	at int64
}

type record struct {
	owner owner
	ran   time.Duration
}

// Learn adds a job that has ended, and ran for some time.
func (h *History) Learn(job Job, ran time.Duration) {
	if h.classes == nil {
		h.classes = map[class]*records{}
	}
	h.learnt++
	for _, of := range classesOf(job) {
		if h.classes[of] == nil {
			h.makeRoom()
			h.classes[of] = &records{counts: map[owner]int{}}
		}
		h.classes[of].at = h.learnt
		h.classes[of].learn(record{owner{job.Namespace, job.User}, max(ran, 0)})
	}
}

// makeRoom forgets a class where there are as many as there may be.
func (h *History) makeRoom() {
	if len(h.classes) < most {
		return
	}
	var oldest class
	at := h.learnt + 1
	for of, its := range h.classes {
		// Those of one job have learnt at the same time: which of them goes must not depend on the order of a map.
		if its.at < at || its.at == at && of.before(oldest) {
			oldest, at = of, its.at
		}
	}
	delete(h.classes, oldest)
}

func (r *records) learn(next record) {
	var gone *record
	if len(r.all) == keep {
		at := r.gives(next.owner)
		gone = &record{r.all[at].owner, r.all[at].ran}
		if r.counts[gone.owner] > 1 {
			r.counts[gone.owner]--
		} else {
			delete(r.counts, gone.owner)
		}
		if at == 0 {
			r.all = r.all[1:] // to move all others costs most of what learning does
		} else {
			r.all = slices.Delete(r.all, at, at+1)
		}
	}
	r.all = append(r.all, next)
	r.counts[next.owner]++
	r.reorder(gone, next.ran)
}

// reorder brings a run time into order, in place of that of a record that is gone, if there is one.
func (r *records) reorder(gone *record, ran time.Duration) {
	if r.sorted == nil {
		return
	}
	before := r.sorted
	r.sorted = make([]time.Duration, 0, len(before)+1)
	if gone != nil {
		at, _ := slices.BinarySearch(before, gone.ran)
		r.sorted = append(append(r.sorted, before[:at]...), before[at+1:]...)
	} else {
		r.sorted = append(r.sorted, before...)
	}
	at, _ := slices.BinarySearch(r.sorted, ran)
	r.sorted = slices.Insert(r.sorted, at, ran)
}

// gives is the record that makes room for one of an owner: their own oldest once they have their share, else the oldest.
func (r *records) gives(to owner) int {
	if r.counts[to] < share {
		return 0
	}
	return slices.IndexFunc(r.all, func(its record) bool { return its.owner == to })
}

// inOrder are the run times, sorted.
func (r *records) inOrder() []time.Duration {
	if r.sorted == nil {
		r.sorted = make([]time.Duration, len(r.all))
		for i := range r.all {
			r.sorted[i] = r.all[i].ran
		}
		slices.Sort(r.sorted)
	}
	return r.sorted
}

// Settle makes what was learnt ready to be asked by several at once, until more is learnt.
func (h *History) Settle() {
	for _, its := range h.classes {
		its.inOrder()
	}
}

// Remaining is how much longer a job runs that has run for some time. limit is how long it may run in all, 0 for as long as
// it likes. Where too little is known the limit alone counts, and without one the distribution is not known.
func (h *History) Remaining(job Job, elapsed, limit time.Duration) Distribution {
	classes := classesOf(job)
	return h.remaining(classes[:], elapsed, limit)
}

// RemainingOwn is Remaining by what those have run alone who own the job: nobody else can change what is said of them.
func (h *History) RemainingOwn(job Job, elapsed, limit time.Duration) Distribution {
	classes := classesOf(job)
	return h.remaining(classes[:own], elapsed, limit)
}

func (h *History) remaining(classes []class, elapsed, limit time.Duration) Distribution {
	out := Distribution{elapsed: max(elapsed, 0), limit: max(limit, 0)}
	if h == nil {
		return out
	}
	for _, of := range classes {
		its := h.classes[of]
		if its == nil || len(its.all) < enough {
			continue
		}
		ran := its.inOrder()
		from, _ := slices.BinarySearch(ran, out.elapsed)
		if len(ran)-from >= enough {
			out.ran = ran[from:]
			break
		}
	}
	return out
}
