package defrag

import (
	"fmt"
	"math/rand/v2"
	"testing"

	corev1 "k8s.io/api/core/v1"
)

// BenchmarkPlan plans for jobs of 8 GPUs on 1,000 nodes, of which hardly a GPU is free.
func BenchmarkPlan(b *testing.B) {
	for name, freePercent := range map[string]int{"RoomForAll": 1, "RoomForNone": 0} {
		b.Run(name, func(b *testing.B) {
			facts := crowded(1000, freePercent, rand.New(rand.NewPCG(1, 1)))
			for b.Loop() {
				if advice := Plan(facts, DefaultLimits); (len(advice.Proposals) > 0) != (freePercent > 0) {
					b.Fatalf("the advice is %v", summary(advice))
				}
			}
		})
	}
}

// crowded is a cluster of pods of one GPU and different needs of CPU, and five jobs of 8 that wait.
func crowded(nodes, freePercent int, random *rand.Rand) *Facts {
	facts := &Facts{Now: now}
	for i := range nodes {
		name := fmt.Sprintf("n%04d", i)
		facts.Nodes = append(facts.Nodes, nodesOf8(name)...)
		for j := range 8 {
			if random.IntN(100) >= freePercent {
				facts.Running = append(facts.Running, running(fmt.Sprintf("%s-%d", name, j), name, 1, cpu(1+random.Int64N(16))))
			}
		}
	}
	for i := range 5 {
		name := fmt.Sprint("eight-", i)
		facts.Waiting = append(facts.Waiting, waiting(name, 8, cpu(96), func(pod *corev1.Pod) { pod.Name = name }))
	}
	return facts
}
