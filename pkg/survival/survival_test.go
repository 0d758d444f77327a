package survival

import (
	"fmt"
	"math/rand/v2"
	"slices"
	"testing"
	"time"
)

func taught(job Job, minutes ...int) *History {
	h := &History{}
	for _, m := range minutes {
		h.AddRun(job, time.Duration(m)*time.Minute)
	}
	return h
}

// upTo is 1, 2, … minutes.
func upTo(n int) []int {
	out := make([]int, n)
	for i := range out {
		out[i] = i + 1
	}
	return out
}

// TestRemaining asks for the median.
func TestRemaining(t *testing.T) {
	mine := Job{Namespace: "team", User: "ada", Pool: "train", GPUs: 8}
	tests := map[string]struct {
		past           *History
		of             Job
		elapsed, limit int
		want           int // minutes, -1 for unknown
	}{
		"nobody has ended":                        {nil, mine, 0, 0, -1},
		"nobody, and it has a limit":              {&History{}, mine, 10, 60, 50},
		"too few":                                 {taught(mine, upTo(19)...), mine, 0, 0, -1},
		"too few, and it has a limit":             {taught(mine, upTo(19)...), mine, 0, 60, 60},
		"just enough":                             {taught(mine, upTo(20)...), mine, 0, 0, 10},
		"it has run":                              {taught(mine, upTo(100)...), mine, 51, 0, 24}, // of 51 to 100: 75
		"it has run for longer than most":         {taught(mine, upTo(100)...), mine, 81, 0, 9},
		"too few have run for as long":            {taught(mine, upTo(100)...), mine, 82, 0, -1},
		"its limit is shorter":                    {taught(mine, upTo(100)...), mine, 0, 30, 30},
		"its limit is over":                       {taught(mine, upTo(100)...), mine, 40, 30, 0},
		"its limit is longer":                     {taught(mine, upTo(100)...), mine, 0, 90, 50},
		"another size of the user":                {taught(mine, upTo(20)...), Job{"team", "ada", "infer", 64}, 0, 0, 10},
		"another user, the same size":             {taught(mine, upTo(20)...), Job{"team", "bob", "train", 5}, 0, 0, 10},
		"another user, pool and size":             {taught(mine, upTo(20)...), Job{"lab", "bob", "infer", 1}, 0, 0, 10},
		"a clock that is behind":                  {taught(mine, upTo(20)...), mine, -5, 0, 10},
		"a request of nothing, as of CPU alone":   {taught(Job{}, upTo(20)...), Job{}, 0, 0, 10},
		"those that ended before they had begun":  {taught(mine, slices.Repeat([]int{-3}, 20)...), mine, 0, 0, 0},
		"more GPUs than there are in the world":   {taught(mine, upTo(20)...), Job{"team", "ada", "train", 1 << 62}, 0, 0, 10},
		"fewer GPUs than none, which nobody asks": {taught(mine, upTo(20)...), Job{"team", "ada", "train", -1 << 62}, 0, 0, 10},
	}
	for name, tc := range tests {
		t.Run(name, func(t *testing.T) {
			d := tc.past.RemainingTime(tc.of, time.Duration(tc.elapsed)*time.Minute, time.Duration(tc.limit)*time.Minute)
			want := time.Duration(tc.want) * time.Minute
			if tc.want < 0 {
				want = Never
			}
			if got := d.Quantile(0.5); got != want || d.IsKnown() != (tc.want >= 0) {
				t.Errorf("the median is %s, known %t; want %s", got, d.IsKnown(), want)
			}
		})
	}
}

// TestTheNarrowestSpeaks has jobs of an hour for each class that is wider, and of a minute for the one that is asked.
func TestTheNarrowestSpeaks(t *testing.T) {
	h := &History{}
	learn := func(job Job, ran time.Duration) {
		for range minRecords {
			h.AddRun(job, ran)
		}
	}
	learn(Job{"team", "ada", "train", 8}, 1*time.Minute)
	learn(Job{"team", "ada", "train", 1}, 2*time.Minute)
	learn(Job{"team", "ada", "train", 1}, 2*time.Minute)
	learn(Job{"lab", "bob", "train", 64}, 3*time.Minute)
	learn(Job{"lab", "eve", "infer", 64}, 4*time.Minute)
	learn(Job{"team-b", "ada", "infer", 16}, 5*time.Minute)
	for want, job := range map[time.Duration]Job{
		1 * time.Minute: {"team", "ada", "train", 8},
		2 * time.Minute: {"team", "ada", "train", 2}, // of 3·20 records of the user the median
		3 * time.Minute: {"team", "new", "train", 64},
		4 * time.Minute: {"team", "new", "infer", 50},
		5 * time.Minute: {"team-b", "ada", "train", 64}, // a namesake elsewhere is somebody else
	} {
		if got := h.RemainingTime(job, 0, 0).Quantile(0.5); got != want {
			t.Errorf("%+v runs for %s, want %s", job, got, want)
		}
	}
}

// TestQuantiles holds for any history: they rise, are never below zero or beyond the limit, and are those of whoever ran for as long,
// found by looking at each.
func TestQuantiles(t *testing.T) {
	rng := rand.New(rand.NewPCG(1, 2))
	job := Job{Namespace: "team", User: "ada", GPUs: 8}
	for range 300 {
		h, all := &History{}, []time.Duration{}
		for range 1 + rng.IntN(300) {
			ran := time.Duration(rng.ExpFloat64()*3600) * time.Second
			h.AddRun(job, ran)
			all = append(all, ran)
		}
		elapsed, limit := time.Duration(rng.IntN(7200))*time.Second, time.Duration(rng.IntN(3)*3600)*time.Second
		d := h.RemainingTime(job, elapsed, limit)
		want := left(all, elapsed, limit)
		if d.HasRecords() != (len(want) >= minRecords) {
			t.Fatalf("learnt %t from %d that ran for as long", d.HasRecords(), len(want))
		}
		before := time.Duration(0)
		for p := 0.0; p <= 1; p += 0.01 {
			got := d.Quantile(p)
			if got < before {
				t.Fatalf("quantile %.2f is %s, after %s", p, got, before)
			}
			if limit > 0 && got > max(limit-elapsed, 0) {
				t.Fatalf("quantile %.2f is %s, and the limit is %s after %s", p, got, limit, elapsed)
			}
			before = got
		}
		if !d.HasRecords() {
			continue
		}
		for i, remaining := range want {
			if got := d.Quantile((float64(i) + 0.5) / float64(len(want))); got != remaining {
				t.Fatalf("number %d of %d remains for %s, want %s", i, len(want), got, remaining)
			}
		}
	}
}

// left is how long each remains that has run for elapsed, in order.
func left(all []time.Duration, elapsed, limit time.Duration) (out []time.Duration) {
	for _, ran := range all {
		if ran < elapsed {
			continue
		}
		if limit > 0 {
			ran = min(ran, limit)
		}
		out = append(out, max(ran-elapsed, 0))
	}
	slices.Sort(out)
	return out
}

// TestWhoRunsManySpeaksForThemselves: a user with ten thousand jobs of a second leaves what is known of the others.
func TestWhoRunsManySpeaksForThemselves(t *testing.T) {
	h := &History{}
	for i := range maxRecords {
		h.AddRun(Job{Namespace: "team", User: fmt.Sprint("u", i%40), GPUs: 1}, time.Hour)
	}
	for range 5 * maxRecords {
		h.AddRun(Job{Namespace: "lab", User: "eve", GPUs: 1}, time.Second)
	}
	if got := h.RemainingTime(Job{Namespace: "new", User: "bob", GPUs: 1}, 0, 0).Quantile(0.5); got != time.Hour {
		t.Errorf("the median of all is %s, want 1h: one user has most records", got)
	}
	if got := h.RemainingTime(Job{Namespace: "lab", User: "eve", GPUs: 1}, 0, 0).Quantile(0.5); got != time.Second {
		t.Errorf("the median of the user's own is %s, want 1s", got)
	}
}

// TestWhatIsKeptIsTheNewest: jobs that have become longer are believed to be.
func TestWhatIsKeptIsTheNewest(t *testing.T) {
	h := &History{}
	job := Job{Namespace: "team", User: "ada", GPUs: 1}
	for range maxRecords {
		h.AddRun(job, time.Minute)
	}
	for range maxRecords {
		h.AddRun(job, time.Hour)
	}
	if got := h.RemainingTime(job, 0, 0).Quantile(0.01); got != time.Hour {
		t.Errorf("one in a hundred runs for %s, want 1h", got)
	}
}

// TestMemoryIsBounded: names are for users to choose, and with whichever they come there is an end to what is kept.
func TestMemoryIsBounded(t *testing.T) {
	teach := func() *History {
		h := &History{}
		for i := range 4 * maxClasses {
			h.AddRun(Job{Namespace: "team", User: fmt.Sprint("u", i), Pool: fmt.Sprint("p", i%7), GPUs: int64(i)}, time.Duration(i)*time.Second)
		}
		return h
	}
	h, again := teach(), teach()
	if len(h.classes) > maxClasses {
		t.Errorf("there are %d classes, want at most %d", len(h.classes), maxClasses)
	}
	for of, its := range h.classes {
		if len(its.all) > maxRecords {
			t.Errorf("%+v has %d records, want at most %d", of, len(its.all), maxRecords)
		}
		sum := 0
		for _, count := range its.counts {
			sum += count
		}
		if sum != len(its.all) {
			t.Errorf("%+v has %d records, and counts %d of %d owners", of, len(its.all), sum, len(its.counts))
		}
		if other := again.classes[of]; other == nil || !slices.Equal(its.all, other.all) {
			t.Errorf("%+v is not the same when the same is learnt again", of)
		}
	}
	if h.classes[class{pool: anyPool, size: anySize}] == nil {
		t.Error("the class of all is forgotten")
	}
}

// TestAskingChangesNothing: who asks in between is told the same as who asks at the end.
func TestAskingChangesNothing(t *testing.T) {
	rng := rand.New(rand.NewPCG(3, 4))
	job := Job{Namespace: "team", User: "ada", GPUs: 8}
	asked, quiet := &History{}, &History{}
	for i := range 2 * maxRecords {
		ran := time.Duration(rng.IntN(1000)) * time.Second
		asked.AddRun(job, ran)
		quiet.AddRun(job, ran)
		if i%7 == 0 {
			asked.RemainingTime(job, 0, 0)
		}
	}
	for p := 0.0; p <= 1; p += 0.01 {
		if got, want := asked.RemainingTime(job, 0, 0).Quantile(p), quiet.RemainingTime(job, 0, 0).Quantile(p); got != want {
			t.Errorf("quantile %.2f is %s, want %s", p, got, want)
		}
	}
}

// TestWhatWasToldStays: a distribution is not changed by what is learnt after.
func TestWhatWasToldStays(t *testing.T) {
	job := Job{Namespace: "team", User: "ada", GPUs: 1}
	h := taught(job, upTo(50)...)
	told := h.RemainingTime(job, 0, 0)
	for range maxRecords {
		h.AddRun(job, time.Second)
	}
	if got := told.Quantile(0.5); got != 25*time.Minute {
		t.Errorf("the median is %s, and was 25m", got)
	}
}

// TestNobodyElseSpeaksForAnOwner, where that is asked for: however many short runs others have.
func TestNobodyElseSpeaksForAnOwner(t *testing.T) {
	var h History
	for range 5000 {
		h.AddRun(Job{Namespace: "others", Pool: "train", GPUs: 8}, time.Minute)
	}
	for range 30 {
		h.AddRun(Job{Namespace: "team", Pool: "train", GPUs: 8}, time.Hour)
	}
	h.PrepareReads()
	for name, tc := range map[string]struct {
		job      Job
		all, own time.Duration
	}{
		"one who has run such":   {Job{Namespace: "team", Pool: "train", GPUs: 8}, time.Hour, time.Hour},
		"one who has run others": {Job{Namespace: "team", Pool: "train", GPUs: 64}, time.Hour, time.Hour},
		"one who has run none":   {Job{Namespace: "new", Pool: "train", GPUs: 8}, time.Minute, Never},
	} {
		t.Run(name, func(t *testing.T) {
			if got := h.RemainingTime(tc.job, 0, 0).Quantile(0.5); got != tc.all {
				t.Errorf("it runs %s by all, want %s", got, tc.all)
			}
			if got := h.RemainingByOwner(tc.job, 0, 0).Quantile(0.5); got != tc.own {
				t.Errorf("it runs %s by its own, want %s", got, tc.own)
			}
		})
	}
}
