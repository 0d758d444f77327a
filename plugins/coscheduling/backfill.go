package coscheduling

import (
	"sync"
	"time"

	corev1 "k8s.io/api/core/v1"
	corev1helpers "k8s.io/component-helpers/scheduling/corev1"
	"k8s.io/klog/v2"

	"g8s.host/gpu-scheduler/pkg/backfill"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/reason"
)

const (
	// renewal is how often it is looked again where a job that waits starts first.
	renewal = 30 * time.Second
	// doubt is how long a job is promised nothing after it had room for all, and another plugin refused it.
	doubt = 10 * time.Minute
	// searchShare is which part of the time is spent on the search for jobs that are promised nothing yet: one in so many parts.
	searchShare = 50
)

// searches are when it was looked where jobs start.
type searches struct {
	mu sync.Mutex
	// next is when it may be looked again for a job, and rests until when for none that was promised nothing.
	next  map[string]time.Time
	rests time.Time
}

// mostSearches is how many jobs are remembered.
const mostSearches = 10_000

// may reports whether it may be looked for a job.
func (s *searches) may(job string, promised bool, now time.Time) bool {
	s.mu.Lock()
	defer s.mu.Unlock()
	return !now.Before(s.next[job]) && (promised || !now.Before(s.rests))
}

// done notes a search that took from one time to another.
func (s *searches) done(job string, from, to time.Time) {
	s.put(job, from.Add(renewal), to)
	s.mu.Lock()
	defer s.mu.Unlock()
	s.rests = to.Add(searchShare * to.Sub(from))
}

// put notes until when it is not looked for a job.
func (s *searches) put(job string, until, now time.Time) {
	s.mu.Lock()
	defer s.mu.Unlock()
	if len(s.next) >= mostSearches {
		for other, next := range s.next {
			if next.Before(now) {
				delete(s.next, other)
			}
		}
	}
	if s.next == nil || len(s.next) >= mostSearches {
		s.next = map[string]time.Time{}
	}
	s.next[job] = until
}

// lineUp says where a pod stands in the line of those that wait: a member where its gang does.
func (p *Plugin) lineUp(pod *corev1.Pod) backfill.Turn {
	turn := backfill.Turn{Job: string(pod.UID), Priority: corev1helpers.PodPriority(pod), Since: pod.CreationTimestamp.Time}
	if name, ok := groupOf(pod); ok {
		if group := p.groups.get(name); unusable(group) == "" {
			turn.Job, turn.Since = jobOf(gangOf(pod, group)), group.CreationTimestamp.Time
		}
	}
	return turn
}

// jobOf names a gang among all jobs.
func jobOf(g gang) string { return g.group.String() + "/" + string(g.owner) }

// promise keeps for a job that does not fit the places on which it fits first, if it is the first in its line of
// those to which that can be promised. It returns what to tell of it, "" for nothing.
func (p *Plugin) promise(group *podGroup, m *members) string {
	if p.promises.Horizon() == 0 {
		return ""
	}
	now := p.now()
	if now.IsZero() { // a simulation, in which nothing ends, has a clock that stands still
		return ""
	}
	turn, line := p.lineUp(m.waiting[0]), backfill.Line{Pool: gpu.PodPool(m.waiting[0]), Gangs: group.minMember > 1}
	book := p.promises.Book()
	own, first := book.Of(turn.Job), book.First(line, now)
	if first != nil && first.Job != turn.Job && !turn.Before(first.Turn) || m.missing(group.minMember) != "" {
		p.promises.End(turn.Job)
		return ""
	}
	if p.searches.may(turn.Job, own != nil, now) {
		own = p.earliest(group, m, now, own)
		p.searches.done(turn.Job, now, p.now())
		if own == nil {
			p.promises.End(turn.Job)
			return ""
		}
		own.Turn, own.Line = turn, line
		p.promises.Give(own)
		p.lookAgain(m.waiting[0])
	}
	if own == nil {
		return ""
	}
	return reason.Promised.Text.Of(len(own.Places), own.At.UTC().Format(time.RFC3339))
}

// lookAgain has a pod that was promised a place tried when that is looked at again: no change in the cluster tells that somebody
// has not left who should have.
func (p *Plugin) lookAgain(pod *corev1.Pod) {
	time.AfterFunc(renewal, func() {
		if p.isThere(pod) && p.placeOf(pod) == none && p.promises.Book().Of(p.lineUp(pod).Job) != nil {
			p.handle.Activate(klog.Background(), map[string]*corev1.Pod{nameOf(pod).String(): pod})
		}
	})
}

// breakPromise gives back what a job was promised that has room for all and is refused by another plugin: what keeps it out
// may do so for ever, and would keep out others with it.
func (p *Plugin) breakPromise(pod *corev1.Pod) {
	job := p.lineUp(pod).Job
	if p.promises.Book().Of(job) != nil {
		p.searches.put(job, p.now().Add(doubt), p.now())
		p.promises.End(job)
	}
}

// promiseOne is promise for a pod of no gang.
func (p *Plugin) promiseOne(pod *corev1.Pod) string {
	return p.promise(&podGroup{minMember: 1}, &members{waiting: []*corev1.Pod{pod}})
}

// earliest returns where and when a job fits first, nil for nowhere in time. Where it was promised a start before it stays with
// these places as long as it starts there by then.
func (p *Plugin) earliest(group *podGroup, m *members, now time.Time, before *backfill.Promise) *backfill.Promise {
	nodes, err := p.handle.SnapshotSharedLister().NodeInfos().List()
	if err != nil {
		return nil // it is in memory
	}
	b := p.bearingOf(nodes)
	b.kept, _ = p.keptFor(gangOf(m.waiting[0], group), group, m)
	waiting := nominatedFirst(m.waiting)[:min(len(m.waiting), max(1, group.minMember-len(m.placed)))]
	kinds := kindsOf(byRank(waiting))
	if kinds.varied {
		return nil
	}
	seats, err := b.seatsOf(kinds.of)
	if err != nil {
		return nil // GPUFilter tells what is wrong with the pod
	}
	f := forecastOf(siteOf(group.layout, seats, b), now, p.effort)
	standing := f.positions(p.places.nodesOf(m.placed))
	latest := now.Add(p.promises.Horizon())
	at, plan := f.search(kinds.of, standing, latest, nil)
	if plan == nil || f.left < 0 {
		return nil
	}
	if before != nil {
		again, same := f.search(kinds.of, standing, latest, before)
		if same != nil && f.left >= 0 && (!again.After(at) || !again.After(before.At)) {
			at, plan = again, same
		}
	}
	return f.promised(kinds.of, plan, at)
}
