# A static binary in an empty image, run by nobody in particular.
FROM golang:1.26.8-bookworm AS build
WORKDIR /src
COPY go.mod go.sum ./
RUN go mod download
COPY . .
ARG VERSION=unknown
RUN CGO_ENABLED=0 go build -trimpath -ldflags="-s -w -X main.version=$VERSION" -o /rayslice ./cmd/rayslice

FROM scratch
COPY --from=build /etc/ssl/certs/ca-certificates.crt /etc/ssl/certs/
COPY --from=build /rayslice /rayslice
ENV RAYSLICE_ADDR=:8080
EXPOSE 8080
USER 65532:65532
ENTRYPOINT ["/rayslice"]
CMD ["serve"]
