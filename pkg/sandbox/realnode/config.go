package realnode

import (
	"bytes"
	_ "embed"
	"encoding/json"
	"fmt"
	"text/template"
	"time"

	metav1 "k8s.io/apimachinery/pkg/apis/meta/v1"
	kubelet "k8s.io/kubelet/config/v1beta1"
	"k8s.io/utils/ptr"
	"sigs.k8s.io/yaml"
)

// Paths on the node, which are those of any node.
const (
	KubeletDir       = "/var/lib/kubelet"
	CDIDir           = "/var/run/cdi"
	ContainerdSocket = "/run/containerd/containerd.sock"
)

const (
	// maxPods is above kubelet's default of 110: 23 pods of a shared GPU times 8 GPUs.
	maxPods = 200
	// statusFrequency is how often kubelet writes the node's status when nothing but a device has changed. With the default of 10 s, an unhealthy GPU
	// would leave allocatable that late.
	statusFrequency = 2 * time.Second
)

// settings are what differs from node to node.
type settings struct {
	// binDir holds the programs.
	binDir string
	// cniDir holds the configuration of the pods' network.
	cniDir string
	// volumePluginDir is where kubelet looks for volume plugins, and makes a folder.
	volumePluginDir string
	// clientCA is the certificate that clients of kubelet are verified with.
	clientCA string
	// cgroup is the name of the node's cgroup.
	cgroup string
	// snapshotter is containerd's: overlayfs, or native where the sandbox is itself on an overlay.
	snapshotter string
	// address is where kubelet listens, on port and, for its health, on healthPort.
	address          string
	port, healthPort int
}

//go:embed assets/containerd.toml
var containerdTemplate string

// containerdConfig is the configuration file of containerd.
func containerdConfig(s settings) ([]byte, error) {
	parsed, err := template.New("containerd.toml").Parse(containerdTemplate)
	if err != nil {
		return nil, fmt.Errorf("reading containerd's configuration: %w", err)
	}
	var buf bytes.Buffer
	err = parsed.Execute(&buf, map[string]string{
		"Snapshotter": s.snapshotter, "PauseImage": PauseImage, "CDIDir": CDIDir, "BinDir": s.binDir, "CNIDir": s.cniDir,
	})
	if err != nil {
		return nil, fmt.Errorf("writing containerd's configuration: %w", err)
	}
	return buf.Bytes(), nil
}

// kubeletConfig is the configuration file of kubelet. Other settings have Kubernetes' defaults.
func kubeletConfig(s settings) ([]byte, error) {
	config := kubelet.KubeletConfiguration{
		TypeMeta: metav1.TypeMeta{APIVersion: kubelet.SchemeGroupVersion.String(), Kind: "KubeletConfiguration"},
		Address:  s.address, Port: int32(s.port), ReadOnlyPort: 0,
		HealthzBindAddress: "127.0.0.1", HealthzPort: ptr.To(int32(s.healthPort)),
		Authentication: kubelet.KubeletAuthentication{
			X509:      kubelet.KubeletX509Authentication{ClientCAFile: s.clientCA},
			Webhook:   kubelet.KubeletWebhookAuthentication{Enabled: ptr.To(true)},
			Anonymous: kubelet.KubeletAnonymousAuthentication{Enabled: ptr.To(false)},
		},
		Authorization:            kubelet.KubeletAuthorization{Mode: kubelet.KubeletAuthorizationModeWebhook},
		ContainerRuntimeEndpoint: "unix://" + ContainerdSocket,
		// The usual address in clusters. No server answers there, but without an address kubelet warns with every pod.
		ClusterDNS:   []string{"10.96.0.10"},
		CgroupDriver: "cgroupfs", CgroupRoot: "/" + s.cgroup,
		FailCgroupV1: ptr.To(false), // machines with cgroup v1 are refused otherwise
		FailSwapOn:   ptr.To(false),
		// A developer's disk is often fuller than the defaults let it be.
		EvictionHard: map[string]string{
			"memory.available": "100Mi", "nodefs.available": "1%", "nodefs.inodesFree": "1%", "imagefs.available": "1%",
		},
		// Images do not come from a registry, so a removed one cannot be pulled again.
		ImageGCHighThresholdPercent: ptr.To(int32(100)),
		MaxPods:                     maxPods,
		MakeIPTablesUtilChains:      ptr.To(false),
		NodeStatusUpdateFrequency:   metav1.Duration{Duration: statusFrequency},
		ResolverConfig:              ptr.To(""),
		VolumePluginDir:             s.volumePluginDir,
	}
	data, err := yaml.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing kubelet's configuration: %w", err)
	}
	return data, nil
}

// cniConfig is the network of the pods: an address each and a link to the machine, and no route further. The addresses are of 198.18.0.0/15, which is
// reserved for tests. The port of kubelet, which no other node of the machine has at the same time, selects 256 of them.
func cniConfig(s settings, stateDir string) ([]byte, error) {
	number := s.port % 512
	config := map[string]any{
		"cniVersion": "1.0.0", "name": "real-node",
		"plugins": []any{map[string]any{
			"type": "ptp", "ipMasq": false,
			"ipam": map[string]any{
				"type": "host-local", "dataDir": stateDir,
				"ranges": []any{[]any{map[string]any{"subnet": fmt.Sprintf("198.%d.%d.0/24", 18+number/256, number%256)}}},
			},
		}},
	}
	data, err := json.Marshal(config)
	if err != nil {
		return nil, fmt.Errorf("writing the network's configuration: %w", err)
	}
	return data, nil
}
