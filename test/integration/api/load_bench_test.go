package api

import (
	"context"
	"fmt"
	"net/http/httptest"
	"os"
	"slices"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"golang.org/x/sync/errgroup"
	batchv1 "k8s.io/api/batch/v1"
	corev1 "k8s.io/api/core/v1"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/client-go/kubernetes"
	"k8s.io/client-go/rest"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/server"
)

const (
	// crowd is how many jobs are there when lists are measured, in the namespace crowded.
	crowd   = 5000
	crowded = "crowded"
	// think is what a client waits between two requests: 200 clients make 400 requests a second.
	think = 500 * time.Millisecond
)

// makeCrowd makes the jobs, once. They are suspended, so that they cost nobody but those who list them.
var makeCrowd = sync.OnceValue(func() error {
	ctx := context.Background()
	config := rest.CopyConfig(cluster.RESTConfig())
	config.QPS = -1
	fast, err := kubernetes.NewForConfig(config)
	if err != nil {
		return err
	}
	namespace := &corev1.Namespace{ObjectMeta: metav1.ObjectMeta{Name: crowded}}
	if _, err := fast.CoreV1().Namespaces().Create(ctx, namespace, metav1.CreateOptions{}); err != nil {
		return err
	}
	var group errgroup.Group
	group.SetLimit(16)
	for i := range crowd {
		group.Go(func() error {
			_, err := fast.BatchV1().Jobs(crowded).Create(ctx, crowdJob(fmt.Sprintf("job-%04d", i)), metav1.CreateOptions{})
			return err
		})
	}
	return group.Wait()
})

func crowdJob(name string) *batchv1.Job {
	labels := map[string]string{
		names.LabelManagedBy: names.ManagedByGpuctl, names.LabelJob: name, names.LabelJobType: "training",
		names.LabelPool: "train", names.LabelPriority: "medium",
	}
	return &batchv1.Job{
		ObjectMeta: metav1.ObjectMeta{Name: name, Labels: labels},
		Spec: batchv1.JobSpec{Suspend: ptr.To(true), Template: corev1.PodTemplateSpec{
			ObjectMeta: metav1.ObjectMeta{Labels: labels},
			Spec: corev1.PodSpec{
				RestartPolicy: corev1.RestartPolicyNever, Containers: []corev1.Container{{Name: "main", Image: "busybox"}},
			},
		}},
	}
}

// crowdLists are those of an administrator, who sees everything: pages of all jobs, of those of a status, of the queue.
var crowdLists = []string{
	"/api/v1/jobs?pageSize=100", "/api/v1/jobs?status=Suspended&page=20", "/api/v1/jobs?limit=500",
	"/api/v1/queue", "/api/v1/nodes", "/api/v1/pools",
}

// BenchmarkLists reports the 99th percentile of lists of 200 clients in a cluster of 5,000 jobs, against a server in
// this process: server, clients and cluster share the machine.
func BenchmarkLists(b *testing.B) {
	if err := makeCrowd(); err != nil {
		b.Fatal(err)
	}
	s, err := server.New(own, server.Options{Rate: 1e9, Burst: 1e9, ReviewTTL: time.Hour})
	if err != nil {
		b.Fatal(err)
	}
	ctx, cancel := context.WithCancel(b.Context())
	defer cancel()
	go func() { _ = s.RunCache(ctx) }()
	web := httptest.NewServer(s.Handler())
	defer web.Close()
	client := many()
	for _, path := range crowdLists {
		for list(ctx, client, web.URL, path, admin) != nil {
			time.Sleep(50 * time.Millisecond)
		}
	}
	b.ResetTimer()
	var took [clients][]time.Duration
	var left atomic.Int64
	left.Store(int64(b.N))
	var group sync.WaitGroup
	for i := range clients {
		group.Go(func() {
			time.Sleep(think * time.Duration(i) / clients)
			for turn := i; left.Add(-1) >= 0; turn++ {
				began := time.Now()
				if err := list(ctx, client, web.URL, crowdLists[turn%len(crowdLists)], admin); err != nil {
					b.Error(err)
					return
				}
				took[i] = append(took[i], time.Since(began))
				time.Sleep(think)
			}
		})
	}
	group.Wait()
	report(b, slices.Concat(took[:]...))
}

func report(b *testing.B, took []time.Duration) {
	if len(took) < clients {
		return // the rehearsal of the benchmark
	}
	slices.Sort(took)
	half, most := took[len(took)/2], took[len(took)*99/100]
	b.ReportMetric(float64(half.Microseconds())/1000, "p50-ms")
	b.ReportMetric(float64(most.Microseconds())/1000, "p99-ms")
	fmt.Fprintf(os.Stderr, "%d lists of %d clients in a cluster of %d jobs: p50 %s, p99 %s\n", len(took), clients, crowd, half, most)
}
