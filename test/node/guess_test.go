package node

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"

	"google.golang.org/grpc"
	"google.golang.org/grpc/credentials/insecure"
	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/api/resource"
	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	deviceplugin "k8s.io/kubelet/pkg/apis/deviceplugin/v1beta1"

	g8s "g8s.host/gpu-scheduler/pkg/apis/g8s/v1alpha1"
	"g8s.host/gpu-scheduler/pkg/gpu"
	"g8s.host/gpu-scheduler/pkg/sandbox/realnode"
)

const (
	guessedResource = "test.g8s.host/guessed"
	guessedVariable = "G8S_GUESSED"
	guessedSocket   = "guessed.sock"
	guessedCards    = 8
)

// guesser is a device plugin that does what one without PreStartContainer can do: Allocate is not told which pod it is
// for, so it takes the oldest one that waits on this node for so many cards, as its annotation says. Device plugins that
// follow a scheduler by annotation work like that.
type guesser struct {
	deviceplugin.UnimplementedDevicePluginServer

	mu     sync.Mutex
	served map[string]bool
}

func (*guesser) GetDevicePluginOptions(context.Context, *deviceplugin.Empty) (*deviceplugin.DevicePluginOptions, error) {
	return &deviceplugin.DevicePluginOptions{}, nil
}

func (*guesser) ListAndWatch(_ *deviceplugin.Empty, stream grpc.ServerStreamingServer[deviceplugin.ListAndWatchResponse]) error {
	var devices []*deviceplugin.Device
	for i := range guessedCards {
		devices = append(devices, &deviceplugin.Device{ID: "slot-" + strconv.Itoa(i), Health: deviceplugin.Healthy})
	}
	if err := stream.Send(&deviceplugin.ListAndWatchResponse{Devices: devices}); err != nil {
		return err
	}
	<-stream.Context().Done()
	return nil
}

func (g *guesser) Allocate(ctx context.Context, request *deviceplugin.AllocateRequest) (*deviceplugin.AllocateResponse, error) {
	response := &deviceplugin.AllocateResponse{}
	for _, container := range request.ContainerRequests {
		cards, err := g.guess(ctx, len(container.DevicesIds))
		if err != nil {
			return nil, err
		}
		response.ContainerResponses = append(response.ContainerResponses, &deviceplugin.ContainerAllocateResponse{
			Envs: map[string]string{guessedVariable: cards},
		})
	}
	return response, nil
}

func (g *guesser) guess(ctx context.Context, count int) (string, error) {
	g.mu.Lock()
	defer g.mu.Unlock()
	list, err := client.CoreV1().Pods("").List(ctx, metav1.ListOptions{FieldSelector: "spec.nodeName=" + bed.Name})
	if err != nil {
		return "", err
	}
	slices.SortFunc(list.Items, func(a, b corev1.Pod) int {
		if c := a.CreationTimestamp.Compare(b.CreationTimestamp.Time); c != 0 {
			return c
		}
		return strings.Compare(a.Name, b.Name) // the names of the rounds ascend; timestamps have seconds only
	})
	for i := range list.Items {
		pod := &list.Items[i]
		assigned, err := assignment(pod)
		if pod.Status.Phase != corev1.PodPending || err != nil {
			continue
		}
		if cards := assigned[partName(0)]; len(cards) == count && !g.served[string(pod.UID)] {
			g.served[string(pod.UID)] = true
			return joined(cards), nil
		}
	}
	return "", errors.New("no pending pod asks for that many cards")
}

func joined(cards []gpu.Device) string {
	var uuids []string
	for _, card := range cards {
		uuids = append(uuids, card.UUID)
	}
	return strings.Join(uuids, ",")
}

// offer registers the plugin with kubelet.
func (g *guesser) offer(t *testing.T) {
	t.Helper()
	folder := bed.HostPath(realnode.KubeletDir + "/device-plugins/")
	listener, err := net.Listen("unix", folder+"/"+guessedSocket)
	if err != nil {
		t.Fatal(err)
	}
	server := grpc.NewServer()
	deviceplugin.RegisterDevicePluginServer(server, g)
	go func() { _ = server.Serve(listener) }()
	t.Cleanup(func() {
		server.Stop()
		_ = os.Remove(folder + "/" + guessedSocket)
	})
	conn, err := grpc.NewClient("unix://"+folder+"/kubelet.sock", grpc.WithTransportCredentials(insecure.NewCredentials()))
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	_, err = deviceplugin.NewRegistrationClient(conn).Register(t.Context(), &deviceplugin.RegisterRequest{
		Version: deviceplugin.Version, Endpoint: guessedSocket, ResourceName: guessedResource,
	})
	if err != nil {
		t.Fatal(err)
	}
	eventually(t, "kubelet to count what the plugin offers", func(ctx context.Context) bool {
		return allocatable(ctx, guessedResource) == guessedCards
	})
}

// TestAGuessInAllocateGivesWrongCards binds pods in an order other than that of their creation, as priorities, retries and
// two schedulers do, each with a card of its own. They ask for a card of ours and for one of a plugin that guesses; both
// are told of the same choice.
func TestAGuessInAllocateGivesWrongCards(t *testing.T) {
	needTime(t)
	(&guesser{served: map[string]bool{}}).offer(t)
	random := rand.New(rand.NewPCG(*seed, 1))
	ours, guessed, all := 0, 0, 0
	for round := range *rounds {
		var names []string
		for i := range guessedCards {
			name := fmt.Sprintf("guess-%03d-%d", round, i)
			names = append(names, name)
			pod := shape{parts: []part{{cards: 1}}}.pod(name)
			pod.Spec.SchedulerName = "by-hand"
			pod.Spec.Containers[0].Resources.Limits[guessedResource] = resource.MustParse("1")
			if err := create(t.Context(), pod); err != nil {
				t.Fatal(err)
			}
		}
		var want [guessedCards]gpu.Assignment
		cards := random.Perm(guessedCards)
		for _, i := range random.Perm(guessedCards) {
			want[i] = gpu.Assignment{partName(0): {{UUID: uuid(cards[i]), Index: cards[i]}}}
			if err := bind(t.Context(), names[i], want[i]); err != nil {
				t.Fatal(err)
			}
		}
		for i, name := range names {
			ctx, cancel := context.WithTimeout(t.Context(), patience)
			got, err := inside.await(ctx, reportName(name, partName(0)), 1)
			cancel()
			if err != nil {
				t.Fatal(errors.Join(err, why(name)))
			}
			all++
			if faults := wrong(want[i], partName(0), got[0]); len(faults) > 0 {
				ours++
				t.Errorf("%s: %v", name, faults)
			}
			if got[0].Env[guessedVariable] != joined(want[i][partName(0)]) {
				guessed++
			}
		}
		for _, name := range names {
			if err := remove(t.Context(), name, false); err != nil {
				t.Fatal(err)
			}
		}
	}
	t.Logf("of %d containers %d had wrong cards by the agent, and %d by the guess", all, ours, guessed)
	if guessed == 0 {
		t.Error("the guess was always right, so this shows nothing")
	}
}

// bind places a pod as a scheduler does that has chosen cards for it; nil is one that chooses none.
func bind(ctx context.Context, name string, cards gpu.Assignment) error {
	binding := &corev1.Binding{
		ObjectMeta: metav1.ObjectMeta{Name: name},
		Target:     corev1.ObjectReference{Kind: "Node", Name: bed.Name},
	}
	if cards != nil {
		text, err := cards.Encode()
		if err != nil {
			return err
		}
		binding.Annotations = map[string]string{g8s.AnnotationGPUDevices: text}
	}
	return client.CoreV1().Pods(namespace).Bind(ctx, binding, metav1.CreateOptions{})
}

// uuid is the name of a card of the agent's file.
func uuid(index int) string { return fmt.Sprintf("GPU-%08d-0000-0000-0000-%012d", index, index) }

// allocatable is how many of a resource kubelet offers on the node, -1 when that cannot be told.
func allocatable(ctx context.Context, name corev1.ResourceName) int64 {
	node, err := client.CoreV1().Nodes().Get(ctx, bed.Name, metav1.GetOptions{})
	if err != nil {
		return -1
	}
	quantity := node.Status.Allocatable[name]
	return quantity.Value()
}
