"""Cross-encoders: a provider's through litellm, or an ONNX file in this process."""
