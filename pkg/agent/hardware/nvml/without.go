//go:build !cgo

package nvml

import (
	"errors"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
)

// Open returns an error: this build has no NVML.
func Open(string) (hardware.Library, error) {
	return nil, errors.New("this gpu-agent has no NVML, as it was built without cgo: build it with CGO_ENABLED=1 and a C compiler, " +
		"or give it cards that do not exist with --nvml=mock")
}
