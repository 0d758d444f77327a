//go:build cgo

package nvml

import (
	"context"
	"errors"
	"fmt"

	"github.com/NVIDIA/go-nvml/pkg/nvml"

	"g8s.host/gpu-scheduler/pkg/agent/hardware"
)

// waitMs is how long one wait for an event takes, in milliseconds. The end of ctx is noticed after at most that time.
const waitMs = 500

// Wait returns the next error of any GPU that was there when it was first called.
func (l *Library) Wait(ctx context.Context) (hardware.Event, error) {
	if err := l.subscribeErrors(); err != nil {
		return hardware.Event{}, err
	}
	for ctx.Err() == nil {
		event, ret := l.events.Wait(waitMs)
		switch {
		case ret == nvml.ERROR_TIMEOUT:
			continue
		case ret != nvml.SUCCESS:
			// A set with a lost GPU may report no events of the others any longer: the next set omits it.
			return hardware.Event{}, errors.Join(nvmlError("waiting for errors of the cards", ret), l.unsubscribeErrors())
		case event.EventType != nvml.EventTypeXidCriticalError:
			continue
		}
		return hardware.Event{XID: event.EventData, UUID: l.deviceUUID(event.Device)}, nil
	}
	return hardware.Event{}, ctx.Err()
}

// deviceUUID returns the UUID of an event's GPU, "" if unknown: then it may be any.
func (l *Library) deviceUUID(device nvml.Device) string {
	if device == nil {
		return ""
	}
	if uuid, ret := device.GetUUID(); ret == nvml.SUCCESS {
		return uuid
	}
	return l.names[device]
}

// subscribeErrors asks the driver for errors of all GPUs, once. A GPU that cannot be watched is reported once, and does not prevent watching the others.
func (l *Library) subscribeErrors() error {
	if l.events != nil {
		return nil
	}
	count, ret := l.lib.DeviceGetCount()
	if err := nvmlError("counting the cards", ret); err != nil {
		return err
	}
	events, ret := l.lib.EventSetCreate()
	if err := nvmlError("preparing to wait for errors", ret); err != nil {
		return err
	}
	l.events, l.names = events, map[nvml.Device]string{}
	var errs []error
	for i := range count {
		device, ret := l.lib.DeviceGetHandleByIndex(i)
		if ret != nvml.SUCCESS {
			continue // it is lost, which Read tells
		}
		if uuid, ret := device.GetUUID(); ret == nvml.SUCCESS {
			l.names[device] = uuid
		}
		if ret := device.RegisterEvents(nvml.EventTypeXidCriticalError, events); ret != nvml.SUCCESS && ret != nvml.ERROR_NOT_SUPPORTED {
			errs = append(errs, nvmlError(fmt.Sprintf("asking for errors of card %d", i), ret))
		}
	}
	return errors.Join(errs...)
}

// unsubscribeErrors releases the driver's event set.
func (l *Library) unsubscribeErrors() error {
	events := l.events
	l.events = nil
	return nvmlError("ending to wait for errors", events.Free())
}
