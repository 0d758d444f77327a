package gang

import (
	"context"
	"fmt"
	"maps"
	"slices"
	"strings"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	"k8s.io/apimachinery/pkg/types"
	"k8s.io/utils/ptr"

	names "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/test/clustertest"
)

// crowded has a job of low priority on each node of the racked pool. It returns their pods, by node.
func (e *env) crowded() map[string]types.UID {
	e.Helper()
	on := map[string]types.UID{}
	for i := range 6 {
		name := fmt.Sprint("low-", i)
		e.Submit(clustertest.Job{Name: name, Priority: "low", Pool: rackedPool, GPUs: 8})
		pod := e.Running(name, 1)[0]
		on[pod.Spec.NodeName] = pod.UID
	}
	return on
}

// left returns the nodes on which those of a crowd are not any more.
func (e *env) left(crowd map[string]types.UID) (nodes []string) {
	e.Helper()
	list, err := cluster.Client.CoreV1().Pods(e.Namespace).List(e.Context(), metav1.ListOptions{})
	if err != nil {
		e.Fatal(err)
	}
	for _, node := range slices.Sorted(maps.Keys(crowd)) {
		if !slices.ContainsFunc(list.Items, func(p corev1.Pod) bool { return p.UID == crowd[node] && p.DeletionTimestamp == nil }) {
			nodes = append(nodes, node)
		}
	}
	return nodes
}

// claim makes a volume that is on some nodes alone, and its claim.
func (e *env) claim(name string, nodes ...string) {
	e.Helper()
	volume := &corev1.PersistentVolume{
		ObjectMeta: metav1.ObjectMeta{Name: e.Namespace + "-" + name},
		Spec: corev1.PersistentVolumeSpec{
			Capacity:    corev1.ResourceList{corev1.ResourceStorage: resource.MustParse("1Gi")},
			AccessModes: []corev1.PersistentVolumeAccessMode{corev1.ReadWriteMany}, PersistentVolumeReclaimPolicy: corev1.PersistentVolumeReclaimRetain,
			PersistentVolumeSource: corev1.PersistentVolumeSource{HostPath: &corev1.HostPathVolumeSource{Path: "/data"}},
			ClaimRef:               &corev1.ObjectReference{Namespace: e.Namespace, Name: name},
			NodeAffinity: &corev1.VolumeNodeAffinity{Required: &corev1.NodeSelector{NodeSelectorTerms: []corev1.NodeSelectorTerm{{
				MatchExpressions: []corev1.NodeSelectorRequirement{{Key: corev1.LabelHostname, Operator: corev1.NodeSelectorOpIn, Values: nodes}},
			}}}},
		},
	}
	if _, err := cluster.Client.CoreV1().PersistentVolumes().Create(e.Context(), volume, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Cleanup(func() {
		if err := cluster.Client.CoreV1().PersistentVolumes().Delete(context.Background(), volume.Name, metav1.DeleteOptions{}); err != nil {
			e.Error(err)
		}
	})
	claim := &corev1.PersistentVolumeClaim{ObjectMeta: metav1.ObjectMeta{Name: name}, Spec: corev1.PersistentVolumeClaimSpec{
		AccessModes: volume.Spec.AccessModes, StorageClassName: ptr.To(""), VolumeName: volume.Name,
		Resources: corev1.VolumeResourceRequirements{Requests: volume.Spec.Capacity},
	}}
	claims := cluster.Client.CoreV1().PersistentVolumeClaims(e.Namespace)
	if _, err := claims.Create(e.Context(), claim, metav1.CreateOptions{}); err != nil {
		e.Fatal(err)
	}
	e.Eventually("the claim to be bound", func(ctx context.Context) (bool, error) {
		claim, err := claims.Get(ctx, name, metav1.GetOptions{})
		return err == nil && claim.Status.Phase == corev1.ClaimBound, err
	})
}

func mounting(claim string) func(*corev1.PodSpec) {
	return func(spec *corev1.PodSpec) {
		spec.Volumes = append(spec.Volumes, corev1.Volume{Name: "data", VolumeSource: corev1.VolumeSource{
			PersistentVolumeClaim: &corev1.PersistentVolumeClaimVolumeSource{ClaimName: claim},
		}})
	}
}

// TestOthersLeaveWhereTheVolumeOfAGangIs, and nobody for a gang whose volume is on too few nodes.
func TestOthersLeaveWhereTheVolumeOfAGangIs(t *testing.T) {
	e := newEnv(t)
	crowd := e.crowded()
	e.claim("narrow", "racked-02")
	e.Submit(clustertest.Job{Name: "without", Priority: "high", Pool: rackedPool, Nodes: 2, GPUs: 8, Spec: mounting("narrow")})
	e.Eventually("the gang to say why nobody leaves for it", func(context.Context) (bool, error) {
		return slices.ContainsFunc(e.members("without"), func(p corev1.Pod) bool {
			return len(p.Status.Conditions) > 0 && strings.Contains(p.Status.Conditions[0].Message, "gang: nobody is evicted for it")
		}), nil
	})
	if left := e.left(crowd); len(left) > 0 {
		t.Errorf("those on %v have left for a gang whose volume is on one node", left)
	}
	there := []string{"racked-03", "racked-05"}
	e.claim("data", there...)
	e.Submit(clustertest.Job{Name: "with", Priority: "high", Pool: rackedPool, Nodes: 2, GPUs: 8, Spec: mounting("data")})
	for _, pod := range e.Running("with", 2) {
		if !slices.Contains(there, pod.Spec.NodeName) {
			t.Errorf("%s runs on %s, and its volume is on %v", pod.Name, pod.Spec.NodeName, there)
		}
	}
	if left := e.left(crowd); !slices.Equal(left, there) {
		t.Errorf("those on %v have left, want those on %v", left, there)
	}
}

// TestOthersLeaveInEachRackOfAGangThatSpreads, not where it would lie closer.
func TestOthersLeaveInEachRackOfAGangThatSpreads(t *testing.T) {
	e := newEnv(t)
	crowd := e.crowded()
	e.Submit(clustertest.Job{Name: "spread", Priority: "high", Pool: rackedPool, Nodes: 3, GPUs: 8, Spec: func(spec *corev1.PodSpec) {
		spec.TopologySpreadConstraints = []corev1.TopologySpreadConstraint{{
			MaxSkew: 1, TopologyKey: names.LabelRack, WhenUnsatisfiable: corev1.DoNotSchedule,
			LabelSelector: &metav1.LabelSelector{MatchLabels: map[string]string{names.LabelJob: "spread"}},
		}}
	}})
	racks := e.racksOf(e.Running("spread", 3))
	if slices.Sort(racks); len(slices.Compact(racks)) != 3 {
		t.Errorf("the members run in racks %v", racks)
	}
	if left := e.left(crowd); len(left) != 3 {
		t.Errorf("those on %v have left for three members", left)
	}
}
