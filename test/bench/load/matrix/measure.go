package main

import (
	"context"
	"fmt"
	"runtime/pprof"
	"slices"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"sigs.k8s.io/scheduler-plugins/apis/scheduling/v1alpha1"

	corev1 "k8s.io/api/core/v1"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/plugins/coscheduling"
	"g8s.host/gpu-scheduler/test/bench/load/cycle"
)

// How much is measured of a cell in one turn: pods until they have taken so much CPU, but not fewer and not more than so
// many. fewPods come first and are not counted: they have the inventories read, which happens once.
const (
	enoughCPU = 200 * time.Millisecond
	leastPods = 6
	mostPods  = 128
	fewPods   = 4
)

// cell is what was measured of a row in a column: the CPU of a pod in microseconds, by round.
type cell struct {
	Row, Column string
	Ours, Stock []float64
	// Batching is of the stock scheduler without its default spreading, which keeps it from placing equal pods together.
	Batching []float64 `json:",omitempty"`
}

// ratio is ours by stock, over the rounds: the median, and the least and the most.
func (c *cell) ratio() (middle, least, most float64) {
	ratios := make([]float64, len(c.Ours))
	for i := range ratios {
		ratios[i] = c.Ours[i] / c.Stock[i]
	}
	slices.Sort(ratios)
	return median(ratios), ratios[0], ratios[len(ratios)-1]
}

// median returns the middle of sorted values, of which there is at least one.
func median(sorted []float64) float64 {
	n := len(sorted)
	return (sorted[(n-1)/2] + sorted[n/2]) / 2
}

// setups are the schedulers that are compared.
type setups struct{ ours, stock, batching cycle.Setup }

// lab is the schedulers of a column, on nodes of one kind.
type lab struct {
	ours, stock, batching *cycle.Cluster

	axes *axes
	// pods is how many have been made.
	pods int
}

func newLab(ctx context.Context, a *axes, h hosts, compared setups) (*lab, error) {
	world, err := a.world(h)
	if err != nil {
		return nil, err
	}
	l := &lab{axes: a}
	if l.ours, err = cycle.New(ctx, world, compared.ours); err != nil {
		return nil, err
	}
	if l.stock, err = cycle.New(ctx, world, compared.stock); err != nil {
		return nil, err
	}
	l.batching, err = cycle.New(ctx, world, compared.batching)
	return l, err
}

// measure has the schedulers place pods of a row, in turns.
func (l *lab) measure(ctx context.Context, r *row, rounds int) (cell, error) {
	var found cell
	together := max(r.together, 1)
	l.pods = (l.pods + together - 1) / together * together
	for round := range rounds + 1 {
		first := l.pods
		var ours cycle.Cost
		var err error
		// A profile tells by these what our scheduler takes from what the other does, and from setting up.
		pprof.Do(ctx, pprof.Labels("turn", "ours", "row", r.name), func(ctx context.Context) {
			ours, err = l.turn(ctx, l.ours, r, first, round == 0)
		})
		if err != nil {
			return found, fmt.Errorf("ours: %w", err)
		}
		stock, err := l.turn(ctx, l.stock, r, first, round == 0)
		if err != nil {
			return found, fmt.Errorf("stock: %w", err)
		}
		batching, err := l.turn(ctx, l.batching, r, first, round == 0)
		if err != nil {
			return found, fmt.Errorf("stock, batching: %w", err)
		}
		l.pods = first + max(ours.Pods, stock.Pods, batching.Pods)
		if round == 0 {
			continue
		}
		found.Ours = append(found.Ours, ours.CPUPerPod())
		found.Stock = append(found.Stock, stock.CPUPerPod())
		found.Batching = append(found.Batching, batching.CPUPerPod())
	}
	return found, nil
}

// turn has one scheduler place pods, from a number on, and takes them away again.
func (l *lab) turn(ctx context.Context, c *cycle.Cluster, r *row, first int, warmUp bool) (cycle.Cost, error) {
	together, most, enough := max(r.together, 1), min(mostPods, r.places(l.axes)), enoughCPU
	if warmUp {
		most, enough = min(most, max(fewPods, l.axes.askedCells())*together), time.Hour
	}
	spent, err := cycle.Measure(func() (int, error) {
		began := cycle.CPUTime()
		for count := 0; ; count += together {
			if count+together > most || count >= leastPods && cycle.CPUTime()-began > enough {
				return count, nil
			}
			if err := l.try(ctx, c, r, l.batch(r, first+count, together)); err != nil {
				return count, err
			}
		}
	})
	if err != nil {
		return spent, err
	}
	return spent, c.Clear(ctx)
}

// batch makes the pods that come together.
func (l *lab) batch(r *row, first, together int) []*corev1.Pod {
	pods := make([]*corev1.Pod, together)
	for i := range pods {
		pods[i] = r.pod(l.axes, first+i)
	}
	return pods
}

// try places pods, or has them refused where the cluster is full.
func (l *lab) try(ctx context.Context, c *cycle.Cluster, r *row, pods []*corev1.Pod) error {
	if group := pods[0].Labels[names.LabelPodGroup]; group != "" {
		known := &v1alpha1.PodGroup{
			ObjectMeta: metav1.ObjectMeta{Namespace: namespace, Name: group},
			Spec:       v1alpha1.PodGroupSpec{MinMember: gangSize},
		}
		if err := coscheduling.RegisterGroups(c.Informers, []*v1alpha1.PodGroup{known}); err != nil {
			return err
		}
	}
	if !r.refuses(l.axes) {
		return c.Place(ctx, pods...)
	}
	return c.Refuse(ctx, pods...)
}
