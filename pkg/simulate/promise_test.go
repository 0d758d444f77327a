package simulate_test

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"strings"
	"testing"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"

	configv1 "g8s.host/gpu-scheduler/pkg/apis/config/v1"
	"g8s.host/gpu-scheduler/pkg/simulate"
	"g8s.host/gpu-scheduler/pkg/survival"
)

var noon = time.Date(2026, 12, 1, 12, 0, 0, 0, time.UTC)

// kindOfStream is what small jobs and the one large among them ask for.
type kindOfStream struct {
	// nodes have 8 GPUs each.
	nodes int
	// gpus are those of a small job, members the nodes of the large one.
	gpus, members int
	// used is the share of its limit that a small job runs for, at the least. unlimited is the share of those without a limit.
	used, unlimited float64
}

// stream is small jobs that ask for more than a cluster has, and a large one that comes after an hour.
type stream struct {
	kindOfStream
	arrivals []simulate.Arrival
	// limits are by pod, 0 for none.
	lifetimes, limits map[string]time.Duration
}

const (
	largeComes = time.Hour
	streamEnds = 10 * time.Hour
)

// streamOf has small jobs arrive where as many fit as one ends each two minutes: fewer until the large one comes, so that none waits that
// comes before it, and a fifth more from then on. Their limits are 20 to 60 minutes.
func streamOf(t *testing.T, kind kindOfStream) *stream {
	t.Helper()
	s := &stream{kindOfStream: kind, lifetimes: map[string]time.Duration{}, limits: map[string]time.Duration{}}
	random := rand.New(rand.NewPCG(7, 7))
	for i, at := 0, time.Duration(0); at < streamEnds; i++ {
		if at == largeComes {
			s.add(t, at, 30*time.Minute, time.Hour, gang("large", "medium", s.members, 8))
		}
		limit := time.Duration(10*(2+random.IntN(5))) * time.Minute
		lifetime := time.Duration(float64(limit) * (s.used + (1-s.used)*random.Float64())).Round(time.Second)
		if random.Float64() < s.unlimited {
			limit = 0
		}
		s.add(t, at, lifetime, limit, fmt.Sprintf("kind: training\nversion: v0.1\njob: {name: small%d, priority: medium}\n"+
			"environment: {image: i, command: [run]}\nresources: {pool: default, gpu: %d}\n", i, s.gpus))
		if at += 100 * time.Second; at < largeComes {
			at += 44 * time.Second
		}
	}
	return s
}

func (s *stream) cluster() simulate.Cluster {
	return simulate.Cluster{Nodes: simulate.NodesFromTrace(machines(s.nodes, 8))}
}

func (s *stream) add(t *testing.T, at, lifetime, limit time.Duration, document string) {
	t.Helper()
	if limit > 0 {
		document = strings.Replace(document, "resources: {", "resources: {time-limit: "+limit.String()+", ", 1)
	}
	for _, arrival := range jobs(t, s.cluster(), at, lifetime, document) {
		arrival.Pod.CreationTimestamp = metav1.NewTime(noon.Add(at))
		if arrival.Group != nil {
			arrival.Group.CreationTimestamp = arrival.Pod.CreationTimestamp
		}
		s.arrivals = append(s.arrivals, arrival)
		s.lifetimes["default/"+arrival.Pod.Name], s.limits["default/"+arrival.Pod.Name] = lifetime, limit
	}
}

// outcome is what became of the large job.
type outcome struct {
	// waited is how long it did, soonest how long it would have if nothing had been started after it came, and promised how long
	// it could have been promised to wait at the most, by the deadlines of who ran then; 0 where that could not be told.
	waited, soonest, promised time.Duration
	// busy is how much of the cluster was until the stream ended.
	busy float64
}

func (s *stream) replay(t *testing.T, horizon time.Duration) outcome {
	t.Helper()
	return s.replayKnowing(t, nil, horizon)
}

// replayKnowing is replay where it is known how long jobs have run before.
func (s *stream) replayKnowing(t *testing.T, past *survival.History, horizon time.Duration) (out outcome) {
	t.Helper()
	candidate := shipped(t)
	for _, profile := range candidate.Config.Profiles {
		for _, plugin := range profile.PluginConfig {
			if args, ok := plugin.Args.(*configv1.GPUFilterArgs); ok {
				args.PromiseHorizon, args.PromiseLedger = &metav1.Duration{Duration: horizon}, "https://ledger.invalid"
			}
		}
	}
	result, err := simulate.Run(t.Context(), s.cluster(), s.arrivals, candidate, simulate.Options{Start: noon, Past: past})
	if err != nil {
		t.Fatal(err)
	}
	var used time.Duration
	last, latest := map[string]time.Duration{}, map[string]time.Duration{} // when the last of those leaves that run as it comes, by node
	for _, decision := range result.Decisions {
		from := time.Duration(decision.At * float64(time.Second))
		end, size := from+s.lifetimes[decision.Pod], s.gpus
		if strings.HasPrefix(decision.Pod, "default/large") {
			out.waited, size = from-largeComes, 8
		} else if from <= largeComes && end > largeComes {
			last[decision.Node] = max(last[decision.Node], end-largeComes)
			limit := s.limits[decision.Pod]
			if limit == 0 {
				limit = streamEnds
			}
			latest[decision.Node] = max(latest[decision.Node], from+limit-largeComes)
		}
		used += time.Duration(size) * max(0, min(end, streamEnds)-from)
	}
	idle := s.nodes - len(last)
	out.soonest, out.promised = nth(last, s.members-idle), nth(latest, s.members-idle)
	out.busy = used.Hours() / (float64(8*s.nodes) * streamEnds.Hours())
	return out
}

// nth is the nth smallest of some times, 0 for the 0th.
func nth(of map[string]time.Duration, n int) time.Duration {
	var all []time.Duration
	for _, at := range of {
		all = append(all, at)
	}
	slices.Sort(all)
	if n < 1 {
		return 0
	}
	return all[n-1]
}

// slack is how much longer than its limit a pod may take to be gone.
const slack = 2*time.Minute + 30*time.Second

// TestALargeJobStartsInAStreamOfSmallOnes as soon as is known that it can, while the nodes that are kept for it are used until then.
func TestALargeJobStartsInAStreamOfSmallOnes(t *testing.T) {
	for name, kind := range map[string]kindOfStream{
		"a gang of 16 nodes of 20":                      {nodes: 20, gpus: 8, members: 16, used: 1},
		"jobs that end long before their limits":        {nodes: 20, gpus: 8, members: 16, used: 0.2},
		"a third of the jobs has no limit":              {nodes: 20, gpus: 8, members: 8, used: 1, unlimited: 0.33},
		"a whole node among pods of two cards":          {nodes: 5, gpus: 2, members: 1, used: 1},
		"a gang of five nodes among pods of four cards": {nodes: 10, gpus: 4, members: 5, used: 1},
	} {
		t.Run(name, func(t *testing.T) {
			s := streamOf(t, kind)
			with, without := s.replay(t, 24*time.Hour), s.replay(t, 0)
			t.Logf("waited %s, soonest %s, promised %s, without %s; busy %.1f %% and %.1f %%", with.waited, with.soonest, with.promised,
				without.waited, 100*with.busy, 100*without.busy)
			if with.waited > with.promised+slack {
				t.Errorf("it waited %s, and could be promised %s", with.waited, with.promised)
			}
			if kind.used == 1 && kind.unlimited == 0 && float64(with.waited) > 1.05*float64(with.soonest) {
				t.Errorf("it waited %s, and could have started after %s", with.waited, with.soonest)
			}
			if without.waited < 10*with.waited {
				t.Errorf("it waited %s, and without a promise %s: the test does not bite", with.waited, without.waited)
			}
			if without.busy-with.busy > 0.02 {
				t.Errorf("%.1f %% of the nodes were busy, %.1f %% without a promise", 100*with.busy, 100*without.busy)
			}
		})
	}
}
