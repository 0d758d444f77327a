# One image a binary: docker build --build-arg BINARY=gpu-scheduler .
# Tags can change. A release names what it is built on by digest: make image BUILD_IMAGE=golang:1.26@sha256:… BASE_IMAGE=…
ARG BUILD_IMAGE=golang:1.26
ARG BASE_IMAGE=gcr.io/distroless/static:nonroot

FROM ${BUILD_IMAGE} AS build
ARG BINARY
ARG LDFLAGS=""
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
RUN CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${LDFLAGS}" -o /out/app ./cmd/${BINARY}
# gpuctl and its server run the scheduler's code as a process of its own, to say where a job would go.
RUN case "${BINARY}" in gpuctl*) \
      CGO_ENABLED=0 go build -trimpath -ldflags "-s -w ${LDFLAGS}" -o /out/gpu-scheduler ./cmd/gpu-scheduler;; esac

FROM ${BASE_IMAGE}
COPY --from=build /out/ /usr/local/bin/
USER 65532:65532
ENTRYPOINT ["/usr/local/bin/app"]
