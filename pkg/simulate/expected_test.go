package simulate_test

import (
	"testing"
	"time"

	"g8s.host/gpu-scheduler/pkg/survival"
)

// pastOf is what is known of jobs of a namespace: 400 that ran for 20 to 60 minutes each, as those of a stream do.
func pastOf(past *survival.History, namespace string, gpus int, each func(i int) time.Duration) *survival.History {
	for i := range 400 {
		past.AddRun(survival.Job{Namespace: namespace, GPUs: int64(gpus)}, each(i))
	}
	return past
}

func asInStreams(i int) time.Duration { return time.Duration(10*(2+i%5)) * time.Minute }

// TestALargeJobStartsAmongJobsWithoutLimits by how long such jobs have run before, where it waits for the end of the stream else.
func TestALargeJobStartsAmongJobsWithoutLimits(t *testing.T) {
	for name, tc := range map[string]struct {
		kindOfStream
		// lost is how much of the cluster may be idle for it. Nobody is expected to end who begins within the longest time that a job takes.
		lost float64
	}{
		"a gang of 16 nodes of 20":                      {kindOfStream{nodes: 20, gpus: 8, members: 16, used: 1, unlimited: 1}, 0.05},
		"a gang of five nodes among pods of four cards": {kindOfStream{nodes: 10, gpus: 4, members: 5, used: 1, unlimited: 1}, 0.02},
		"a whole node among pods of two cards":          {kindOfStream{nodes: 5, gpus: 2, members: 1, used: 1, unlimited: 1}, 0.02},
	} {
		t.Run(name, func(t *testing.T) {
			s := streamOf(t, tc.kindOfStream)
			knowing := s.replayKnowing(t, pastOf(&survival.History{}, "default", tc.gpus, asInStreams), 24*time.Hour)
			without := s.replay(t, 24*time.Hour)
			t.Logf("waited %s, soonest %s, without knowing %s; busy %.1f %% and %.1f %%", knowing.waited, knowing.soonest,
				without.waited, 100*knowing.busy, 100*without.busy)
			if knowing.waited > time.Hour+slack {
				t.Errorf("it waited %s, longer than the longest of those before", knowing.waited)
			}
			if without.waited < 10*knowing.waited {
				t.Errorf("it waited %s, and without knowing %s: the test does not bite", knowing.waited, without.waited)
			}
			if without.busy-knowing.busy > tc.lost {
				t.Errorf("%.1f %% of the nodes were busy, %.1f %% without a promise", 100*knowing.busy, 100*without.busy)
			}
		})
	}
}

// TestWhoLiesAboutTheirTime: jobs run for hours in a namespace that had nothing but jobs of a minute. They put off no start that is promised by
// deadlines, and others not for long: after some bets that they have lost nobody believes them any more.
func TestWhoLiesAboutTheirTime(t *testing.T) {
	const liar = "liar"
	lying := func(s *stream) *stream {
		for i := range s.arrivals {
			if s.arrivals[i].Group != nil || i%3 > 0 {
				continue
			}
			pod := s.arrivals[i].Pod.DeepCopy()
			pod.Namespace, pod.Spec.ActiveDeadlineSeconds = liar, nil
			s.arrivals[i].Pod, s.arrivals[i].Lifetime = pod, 5*time.Hour
			s.lifetimes[liar+"/"+pod.Name] = 5 * time.Hour
		}
		return s
	}
	past := pastOf(&survival.History{}, "default", 8, asInStreams)
	past = pastOf(past, liar, 8, func(int) time.Duration { return time.Minute })
	for name, tc := range map[string]struct {
		nodes, members int
		unlimited      float64
		// unchanged says that nothing comes of what is learnt, and most is how long the job waits at most else.
		unchanged bool
		most      time.Duration
	}{
		"all others have a limit": {nodes: 10, members: 5, unchanged: true},
		"nobody has":              {nodes: 20, members: 8, unlimited: 1, most: 2 * time.Hour}, // of fewer liars none loses bets enough
	} {
		t.Run(name, func(t *testing.T) {
			s := lying(streamOf(t, kindOfStream{nodes: tc.nodes, gpus: 8, members: tc.members, used: 1, unlimited: tc.unlimited}))
			knowing, without := s.replayKnowing(t, past, 24*time.Hour), s.replay(t, 24*time.Hour)
			t.Logf("waited %s, without knowing %s; busy %.1f %% and %.1f %%", knowing.waited, without.waited, 100*knowing.busy, 100*without.busy)
			switch {
			case tc.unchanged && knowing.waited != without.waited:
				t.Errorf("it waited %s, and without knowing %s", knowing.waited, without.waited)
			case !tc.unchanged && (knowing.waited > tc.most || without.waited < 5*tc.most):
				t.Errorf("it waited %s, want at most %s, and without knowing %s", knowing.waited, tc.most, without.waited)
			}
		})
	}
}
